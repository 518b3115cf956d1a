// An error on its way between actors: plain data, unlike an exception.
#pragma once

#include <chrono>
#include <exception>
#include <optional>
#include <string>

#include "core/error.hpp"

namespace pipetrain {

struct Failure {
  ErrorKind kind = ErrorKind::internal;
  std::string text;           // one line, as Error::what()
  std::string where = {};     // the part of the run that reported it: "stage 1"; empty: the run as a whole
  bool names_place = false;   // the text says already where it happened
  bool process_lost = false;  // `where` is a process that is gone, and this is how
  std::optional<Setting> setting = {};
  // By this process: where another one has told of it, when that was heard.
  std::chrono::steady_clock::time_point noticed = std::chrono::steady_clock::now();
};

// What the user reads: the text, behind the place where it happened unless it speaks for itself. Wrong input does: it names its
// file and line, or its setting.
std::string line_of(const Failure& failure);

// What was thrown: an Error as it is, a lack of memory as such, all else as internal. cause: not null.
Failure failure_of(const std::exception_ptr& cause);
// Whether this may be but the consequence of a lost process, of which those who watch the processes have yet to tell.
inline bool may_have_another_cause(const Failure& failure) {
  return failure.kind == ErrorKind::peer_lost && !failure.process_lost && !failure.names_place && !failure.where.empty();
}
// How long to wait for that: longer than it takes to notice a process that is silent.
inline constexpr std::chrono::milliseconds time_to_notice_a_loss{3500};

// As something that can be thrown: an Error with the failure's text.
std::exception_ptr exception_of(const Failure& failure);

}  // namespace pipetrain
