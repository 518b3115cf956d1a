// The names in the documents exist: files of this repository, and the headings that their links point to.
#include <cctype>
#include <filesystem>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "catch.hpp"
#include "paths.hpp"
#include "structure/source_files.hpp"

namespace fs = std::filesystem;
using pipetrain::structure::text_of;

namespace {

const fs::path root = pipetrain::source_folder();

std::vector<std::string> documents() {
  std::vector<std::string> paths = {"README.md", "CONTRIBUTING.md", "bench/README.md"};
  for (const auto& entry : fs::recursive_directory_iterator(root / "docs"))
    if (entry.path().extension() == ".md") paths.push_back(fs::relative(entry.path(), root).string());
  return paths;
}

// Returns every match's first group, outside of code blocks.
std::vector<std::string> names_in_document(const std::string& document, const std::string& pattern) {
  const std::regex searched(pattern);
  std::vector<std::string> found;
  bool code = false;
  std::istringstream lines(text_of(document));
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("```", 0) == 0) code = !code;
    if (code) continue;
    for (std::sregex_iterator match(line.begin(), line.end(), searched), end; match != end; ++match)
      found.push_back((*match)[1]);
  }
  return found;
}

// "Slices: `--slices N`" -> "slices---slices-n", as pages show it.
std::string anchor(const std::string& heading) {
  std::string result;
  for (const char c : heading) {
    if (std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_')
      result += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (c == ' ') result += '-';
  }
  return result;
}

}  // namespace

TEST_CASE("files that documents name are there") {
  for (const std::string& document : documents()) {
    for (
        const std::string& path : names_in_document(
            document,
            R"((?:^|[^\w/.-])((?:tests/|include/)?(?:actors|apps|bench|bindings|comm|core|data|files|model|ops|records|schedules|scripts|tuning)"
            R"()/[\w/.-]*\.(?:cpp|hpp|cu|cuh|py|sh)))")) {
      const bool example = path.find("NAME") != std::string::npos || path.find("my_") != std::string::npos;
      INFO(document << " names " << path);
      const bool there = example || fs::exists(root / path);
      CHECK(there);
    }
  }
}

TEST_CASE("links of documents point to files and headings that are there") {
  for (const std::string& document : documents()) {
    for (const std::string& link : names_in_document(document, R"(\]\(([^)\s]+)\))")) {
      const auto hash = link.find('#');
      const std::string file = link.substr(0, hash);
      if (link.find("://") != std::string::npos || (hash == std::string::npos && file.find('.') == std::string::npos)) {
        continue;  // of the web, or C++ in brackets
      }
      INFO(document << " links to " << link);
      const fs::path target = file.empty() ? fs::path(document) : (fs::path(document).parent_path() / file).lexically_normal();
      REQUIRE(fs::exists(root / target));
      if (hash == std::string::npos) continue;
      std::set<std::string> anchors;
      for (const std::string& heading : names_in_document(target.string(), "^#+ (.*)$")) anchors.insert(anchor(heading));
      CHECK(anchors.count(link.substr(hash + 1)) == 1);
    }
  }
}
