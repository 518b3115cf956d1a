// An error on its way between actors: plain data, unlike an exception.
#pragma once

#include <exception>
#include <optional>
#include <string>

#include "core/error.hpp"

namespace pipetrain {

struct Failure {
  ErrorKind kind = ErrorKind::internal;
  std::string text;          // one line, as Error::what()
  std::string where = {};    // the part of the run that reported it: "stage 1"; empty: the run as a whole
  bool names_place = false;  // the text says already where it happened
  std::optional<Setting> setting = {};
};

// What the user reads: the text, behind the place where it happened unless it speaks for itself. Wrong input does: it names its
// file and line, or its setting.
std::string line_of(const Failure& failure);

// What was thrown: an Error as it is, a lack of memory as such, all else as internal. cause: not null.
Failure failure_of(const std::exception_ptr& cause);
// As something that can be thrown: an Error with the failure's text.
std::exception_ptr exception_of(const Failure& failure);

}  // namespace pipetrain
