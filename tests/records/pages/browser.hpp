// Opens pages in a headless Chromium, and returns what a check in them has found.
#pragma once

#include <string>
#include <vector>

#include "temp_folder.hpp"

namespace pipetrain::test {

struct Window {
  int width = 1280;
  bool dark = false;
};
// The windows in which every page is checked.
inline constexpr Window windows[] = {{1280, false}, {390, true}, {1280, true}, {390, false}};

struct Opened {
  int status = -1;
  std::string elements;  // after the page's script and the check have run
  std::string console;   // the messages of the page
};

// Returns false, and skips the test, where there is no Chromium. PIPETRAIN_TEST_CHROMIUM names one elsewhere.
bool has_browser();

// Opens the page, with these files of tests/records/pages/ as a script after its own.
Opened open_page(const TempFolder& folder, const std::string& page, const Window& window,
                 const std::vector<std::string>& checks = {});

// Returns the complaints of the checks, a line each; "no verdict" where they did not come to their end.
std::string complaints(const Opened& opened);

}  // namespace pipetrain::test
