// The headers that cmake/PublicHeaders.cmake installs, and the page that documents them.
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "catch.hpp"

namespace fs = std::filesystem;

namespace {

std::string read(const fs::path& path) {
  std::ifstream file(fs::path(PIPETRAIN_SOURCE_DIR) / path);
  REQUIRE(file);
  return {std::istreambuf_iterator<char>(file), {}};
}

// What the pattern's first group matches anywhere in the text.
std::set<std::string> all_matches(const std::string& text, const char* pattern) {
  const std::regex expression(pattern);
  std::set<std::string> found;
  for (std::sregex_iterator match(text.begin(), text.end(), expression), end; match != end; ++match)
    found.insert((*match)[1].str());
  return found;
}

// Those of all components, or up to the list with this name.
std::set<std::string> public_headers(const std::string& before = "") {
  const std::string lists = read("cmake/PublicHeaders.cmake");
  return all_matches(before.empty() ? lists : lists.substr(0, lists.find("set(" + before)), R"(\n  (\S+\.hpp))");
}

}  // namespace

TEST_CASE("public headers include public headers only, and none of CAF's") {
  const std::set<std::string> headers = public_headers();
  REQUIRE(headers.size() > 20);
  for (const std::string& header : headers) {
    const std::string text = read(header);
    for (const std::string& included : all_matches(text, R"re(#include "([^"]+)")re")) {
      INFO(header << " includes " << included);
      CHECK(headers.count(included) == 1);
    }
    INFO(header);
    CHECK(text.find("#include <caf/") == std::string::npos);
  }
}

TEST_CASE("docs/api.md documents every public header of schedules and engine, and only public ones") {
  std::set<std::string> documented;
  std::istringstream lines(read("docs/api.md"));
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("### ", 0) == 0) documented.merge(all_matches(line, R"(([a-z_/]+\.hpp))"));
  }
  for (const std::string& header : public_headers("training_public_headers")) {
    INFO(header);
    CHECK(documented.count(header) == 1);
  }
  const std::set<std::string> all = public_headers();
  for (const std::string& header : documented) {
    INFO(header);
    CHECK(all.count(header) == 1);
  }
}
