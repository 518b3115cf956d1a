#pragma once

#include <string>

#include "catch.hpp"
#include "core/error.hpp"

namespace pipetrain {

// Returns the line of the input error in which `action` ends; empty if there is none.
template <class Action>
std::string input_error(Action action) {
  try {
    action();
  } catch (const Error& error) {
    const std::string text = error.what();
    CHECK(error.kind() == ErrorKind::input);
    CHECK(text.find('\n') == std::string::npos);
    return text;
  }
  return "";
}

}  // namespace pipetrain
