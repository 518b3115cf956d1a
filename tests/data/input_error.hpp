// Returns the error of a call on wrong files.
#pragma once

#include <functional>
#include <string>

#include "catch.hpp"
#include "core/error.hpp"
#include "temp_folder.hpp"

namespace pipetrain::test {

// Returns the line of the Error(input) that the call throws, with names of files relative to the folder; "no error" if
// it throws none.
inline std::string input_error(const TempFolder& folder, const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::input);
    std::string text = error.what();
    CHECK(text.find('\n') == std::string::npos);
    const std::string prefix = folder.path().string() + "/";
    for (auto at = text.find(prefix); at != std::string::npos; at = text.find(prefix)) text.erase(at, prefix.size());
    return text;
  }
  return "no error";
}

}  // namespace pipetrain::test
