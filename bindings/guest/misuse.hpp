// A call that breaks the rules of an interface: on an object that is gone, out of order, or from a place where it would
// wait for itself.
#pragma once

#include "core/error.hpp"

namespace pipetrain {

class Misuse : public Error {
 public:
  explicit Misuse(const std::string& what) : Error(ErrorKind::input, what) {}
};

}  // namespace pipetrain
