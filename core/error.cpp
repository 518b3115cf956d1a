#include "core/error.hpp"

namespace pipetrain {

const char* to_string(ErrorKind kind) noexcept {
  switch (kind) {
    case ErrorKind::input:
      return "wrong input";
    case ErrorKind::out_of_memory:
      return "out of memory";
    case ErrorKind::numeric:
      return "not a finite number";
    case ErrorKind::aborted:
      return "aborted";
    case ErrorKind::peer_lost:
      return "peer lost";
    case ErrorKind::unavailable:
      return "not available";
    case ErrorKind::internal:
      return "internal error";
  }
  return "unknown error";
}

int exit_status(ErrorKind kind) noexcept { return kind == ErrorKind::input ? 2 : 1; }

}  // namespace pipetrain
