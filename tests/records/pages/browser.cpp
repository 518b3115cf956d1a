#include "records/pages/browser.hpp"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "paths.hpp"
#include "run_program.hpp"
#include "skip.hpp"

namespace pipetrain::test {

namespace {

std::string browser() {
  const char* given = std::getenv("PIPETRAIN_TEST_CHROMIUM");
  return given ? given : "chromium";
}

std::string check_text(const std::string& name) {
  std::ifstream in(source_folder() + "/tests/records/pages/" + name);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

// Returns a page that shows another one in a frame of this width: the browser makes no window as narrow as a phone.
std::string framed(const std::string& page, int width) {
  std::string text = nlohmann::json(page).dump();
  for (std::size_t at = 0; (at = text.find('<', at)) != text.npos;) text.replace(at, 1, "\\u003c");
  return "<!doctype html><html style=\"color-scheme:light dark\"><body><iframe id=\"frame\" style=\"border:0;height:1100px;width:" +
         std::to_string(width) + "px\"></iframe><script>document.getElementById('frame').srcdoc = " + text +
         "</script></body></html>";
}

// Leaves out what the browser itself writes of the machine.
std::string console_lines(const std::string& written) {
  std::istringstream lines(written);
  std::string kept;
  for (std::string line; std::getline(lines, line);)
    if (line.find("CONSOLE") != std::string::npos) kept += line + "\n";
  return kept;
}

}  // namespace

bool has_browser() {
  if (std::system(("command -v " + browser() + " > /dev/null 2>&1").c_str()) == 0) return true;
  skip("no chromium; PIPETRAIN_TEST_CHROMIUM names one elsewhere");
  return false;
}

Opened open_page(const TempFolder& folder, const std::string& page, const Window& window,
                 const std::vector<std::string>& checks) {
  std::string text = page;
  if (!checks.empty()) {
    text += "<script>const expected = {width: " + std::to_string(window.width) + ", dark: " + (window.dark ? "true" : "false") +
            "};\n";
    for (const auto& check : checks) text += check_text(check);
    text += "</script>";
  }
  constexpr int narrowest_window = 500;
  if (window.width < narrowest_window) text = framed(text, window.width);
  const auto file = folder.write("page.html", text);
  const std::string dark = window.dark ? "--force-dark-mode --blink-settings=preferredColorScheme=0 " : "";
  const Result result = run_program(
      "timeout", "120 " + browser() +
                     " --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --enable-logging=stderr --hide-scrollbars "
                     "--virtual-time-budget=4000 " +
                     dark + "--window-size=" + std::to_string(std::max(window.width, narrowest_window)) +
                     ",1200 --user-data-dir=" + (folder.path() / "profile").string() + " --dump-dom file://" + file.string());
  return {result.status, result.out, console_lines(result.err)};
}

std::string complaints(const Opened& opened) {
  const std::string begin = "<pre id=\"verdict\">", end = "</pre>";
  const std::size_t at = opened.elements.find(begin);
  if (at == std::string::npos) return "no verdict\n" + opened.console;
  const std::size_t from = at + begin.size();
  return opened.elements.substr(from, opened.elements.find(end, from) - from);
}

}  // namespace pipetrain::test
