// The kinds of errors, their words in reports and their exit statuses.
#pragma once

namespace pipetrain {

enum class ErrorKind {
  input,          // the command line, a given file or given data is wrong, or cannot be read or written
  out_of_memory,  // a device or the host has too little memory
  numeric,        // a loss or a norm is not finite
  aborted,        // stopped because another part of the run failed, or on request
  peer_lost,      // an actor, a worker, a process or a link went away
  unavailable,    // this build or this machine lacks what was asked for
  internal,       // a bug of pipetrain
};

// Returns the word for reports, e.g. "out of memory".
const char* to_string(ErrorKind kind) noexcept;

// Returns the exit status of the command-line contract: 2 for input, else 1.
int exit_status(ErrorKind kind) noexcept;

}  // namespace pipetrain
