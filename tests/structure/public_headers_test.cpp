// The headers that cmake/PublicHeaders.cmake installs, and the page that documents them.
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "catch.hpp"
#include "paths.hpp"

namespace fs = std::filesystem;

namespace {

std::string read(const fs::path& path) {
  std::ifstream file(fs::path(pipetrain::source_folder()) / path);
  REQUIRE(file);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Returns what the pattern's first group matches anywhere in the text.
std::set<std::string> all_matches(const std::string& text, const char* pattern) {
  const std::regex expression(pattern);
  std::set<std::string> found;
  for (std::sregex_iterator match(text.begin(), text.end(), expression), end; match != end; ++match)
    found.insert((*match)[1].str());
  return found;
}

// The headers of all components: those that programs include, and those that these include.
struct PublicHeaders {
  std::set<std::string> named, included;
};

PublicHeaders public_headers() {
  static const std::regex list(R"(set\((\w+)_headers([^)]*)\))");
  const std::string lists = read("cmake/PublicHeaders.cmake");
  PublicHeaders headers;
  for (std::sregex_iterator match(lists.begin(), lists.end(), list), end; match != end; ++match) {
    const bool included = (*match)[1].str().ends_with("_included");
    (included ? headers.included : headers.named).merge(all_matches((*match)[2].str(), R"((\S+\.hpp))"));
  }
  return headers;
}

std::set<std::string> included_by_header(const std::string& header) {
  return all_matches(read(header), R"re(#include "([^"]+)")re");
}

}  // namespace

TEST_CASE("programs name at most 15 public headers, and what these include is installed, and nothing else") {
  const PublicHeaders headers = public_headers();
  CHECK(headers.named.size() > 10);
  CHECK(headers.named.size() <= 15);
  std::set<std::string> reached = headers.named;
  std::vector<std::string> open(reached.begin(), reached.end());
  while (!open.empty()) {
    const std::string header = open.back();
    open.pop_back();
    for (const std::string& included : included_by_header(header))
      if (reached.insert(included).second) open.push_back(included);
  }
  std::set<std::string> installed = headers.named;
  installed.insert(headers.included.begin(), headers.included.end());
  CHECK(installed == reached);
}

TEST_CASE("no public header includes CAF") {
  const PublicHeaders headers = public_headers();
  for (const auto& list : {headers.named, headers.included}) {
    for (const std::string& header : list) {
      INFO(header);
      CHECK(read(header).find("#include <caf/") == std::string::npos);
    }
  }
}

TEST_CASE("docs/api.md has an example of each header that programs include, and names the others") {
  const PublicHeaders headers = public_headers();
  const std::string page = read("docs/api.md");
  std::set<std::string> documented;
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("### ", 0) == 0) documented.merge(all_matches(line, R"(([a-z_/]+\.hpp))"));
  }
  CHECK(documented == headers.named);
  for (const std::string& header : headers.included) {
    INFO(header);
    CHECK(page.find(header) != std::string::npos);
  }
}
