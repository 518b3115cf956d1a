// The error of a text that is not valid JSON.
#pragma once

#include <cstddef>
#include <string>

#include "core/error.hpp"

namespace pipetrain {

// A fault of a text, and its line, counted from 1. Readers put the file's name in front.
class JsonFault : public Error {
 public:
  JsonFault(std::size_t line, const std::string& what) : Error(ErrorKind::input, what), line_(line) {}
  std::size_t line() const noexcept { return line_; }

 private:
  std::size_t line_;
};

}  // namespace pipetrain
