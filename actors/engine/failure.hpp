// An error on its way between actors: plain data, unlike an exception.
#pragma once

#include <exception>
#include <string>

#include "core/error.hpp"

namespace pipetrain {

struct Failure {
  ErrorKind kind = ErrorKind::internal;
  std::string text;  // one line, as Error::what()
};

// What was thrown: an Error as it is, a lack of memory as such, all else as internal. cause: not null.
Failure failure_of(const std::exception_ptr& cause);
// As something that can be thrown.
std::exception_ptr exception_of(const Failure& failure);

}  // namespace pipetrain
