// The error of a JSON value that is used as one of another kind.
#pragma once

#include <string>

#include "core/error.hpp"

namespace pipetrain {

// Thrown if a value is not of the requested kind, or has no such key or element. This is a bug, unless a reader that
// asks without checking first catches it.
class JsonMisuse : public Error {
 public:
  explicit JsonMisuse(const std::string& what) : Error(ErrorKind::internal, what) {}
};

}  // namespace pipetrain
