// The error of a chat template that refuses its variables.
#pragma once

#include <string>

#include "core/error.hpp"

namespace pipetrain::templates {

// The template refuses what it is given, by raise_exception() or because a value is missing or of another type than it takes.
class RenderError : public Error {
 public:
  explicit RenderError(const std::string& what) : Error(ErrorKind::input, what) {}
};

}  // namespace pipetrain::templates
