// An error in a message between actors: plain data, unlike an exception.
#pragma once

#include <chrono>
#include <exception>
#include <optional>
#include <string>

#include "core/error.hpp"

namespace pipetrain {

struct Failure {
  ErrorKind kind = ErrorKind::internal;
  std::string text;           // one line, like Error::what()
  std::string where = {};     // the part of the run that reported it: "stage 1"; empty: the run as a whole
  bool names_place = false;   // the text already names the place
  bool process_lost = false;  // `where` is a process that is gone; the text says how it was lost
  std::optional<Setting> setting = {};
  // When this process noticed it; for a failure in another process, when this one heard of it.
  std::chrono::steady_clock::time_point noticed = std::chrono::steady_clock::now();
};

// Ends a membership from whose last step the processes go on in another one: see Pipeline::abort(). Every process of the run
// then fails as if one of them were lost.
struct MembershipEnds : Error {
  explicit MembershipEnds(const std::string& why) : Error(ErrorKind::peer_lost, why) {}
};

// Returns the line for the user: the place, then the text. The place is omitted where the text names one: a file and
// line, or a setting.
std::string line_of(const Failure& failure);

// Converts what was thrown: an Error is kept, std::bad_alloc becomes lack of memory, all else an internal error. cause:
// not null.
Failure failure_of(const std::exception_ptr& cause);
// True if this may only be the consequence of a lost process that the control plane has not reported yet.
inline bool may_have_another_cause(const Failure& failure) {
  return failure.kind == ErrorKind::peer_lost && !failure.process_lost && !failure.names_place && !failure.where.empty();
}
// How long to wait for that report: longer than it takes to notice a silent process.
inline constexpr std::chrono::milliseconds time_to_notice_a_loss{3500};

// Returns an Error with the failure's text.
std::exception_ptr exception_of(const Failure& failure);

}  // namespace pipetrain
