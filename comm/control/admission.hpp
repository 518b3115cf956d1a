// Whether a process may join a run.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "comm/control/handshake.hpp"

namespace pipetrain::control {

// Compares what a process says with what process 0 runs and who has joined: one entry a process, none where it has not.
std::optional<Refusal> refusal_of(const Hello& hello, const Hello& first,
                                  const std::vector<std::optional<ProcessInfo>>& joined);

// Refuses a process of another launcher's job; nothing where the jobs are equal. The run goes on waiting for its own processes.
// To be called after the token has been checked.
std::optional<Refusal> refusal_of_job(const Hello& hello, const Hello& first);

// Of a process that has shown this one, which is not `token`.
Refusal wrong_token(std::span<const std::byte> shown, const std::string& token);
Refusal wrong_version(int theirs, int ours);

// "process 1, process 3 (it was refused: ...) and 5 more": who has not joined, and what is known of it: by process, empty where
// nothing is.
std::string missing(const std::vector<std::optional<ProcessInfo>>& joined, const std::vector<std::string>& known);

}  // namespace pipetrain::control
