#pragma once

#include <string>

#include "catch.hpp"
#include "core/error.hpp"

namespace pipetrain {

// The one line of the input error that `action` ends in; empty when there is none.
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
