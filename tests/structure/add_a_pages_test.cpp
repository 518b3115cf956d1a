// What the pages "add a ..." promise: how many files know of one family, one optimizer, one transport. A new one touches as
// many.
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "catch.hpp"
#include "structure/source_files.hpp"

using namespace pipetrain::structure;

namespace {

// Files of the rooms that run a model whose code, comments left out, matches.
std::set<std::string> files_naming(const std::string& pattern) {
  static const std::regex rooms("(actors|apps|comm|core|model|ops|schedules|tuning)/.*");
  const std::regex names(pattern);
  std::set<std::string> found;
  for (const std::string& path : source_files()) {
    if (!std::regex_match(path, rooms)) continue;
    std::istringstream lines(text_of(path));
    for (std::string line; std::getline(lines, line);)
      if (std::regex_search(line.substr(0, line.find("//")), names)) found.insert(path);
  }
  return found;
}

std::string without_ending(const std::string& path) { return path.substr(0, path.rfind('.')); }

// A source and its header are one.
std::set<std::string> units_naming(const std::string& pattern) {
  std::set<std::string> units;
  for (const std::string& path : files_naming(pattern)) units.insert(without_ending(path));
  return units;
}

// `name` stands for NAME in the page.
void check_listed(const std::string& page, const std::string& name, const std::set<std::string>& paths) {
  const std::string text = text_of(page);
  for (std::string path : paths) {
    if (const auto at = path.find(name); at != std::string::npos) path.replace(at, name.size(), "NAME");
    INFO(page << " does not list " << path);
    CHECK(text.find(path) != std::string::npos);
  }
}

}  // namespace

TEST_CASE("a model family is known in at most five files, which docs/add-a-model.md lists") {
  auto files = files_naming(R"(\bgpt2)");
  files.erase("model/weights/llmc_model.cpp");  // a format that has no other family, whatever families there are
  CHECK(files.count("model/families/gpt2.cpp") == 1);
  CHECK(files.size() <= 5);
  check_listed("docs/add-a-model.md", "gpt2", files);
}

TEST_CASE("an optimizer is known in at most two places, which docs/add-an-optimizer.md lists") {
  const auto units = units_naming(R"(\bmake_adamw\b)");
  CHECK(units.count("model/optimizer/adamw") == 1);
  CHECK(units.size() <= 2);
  check_listed("docs/add-an-optimizer.md", "adamw", units);
}

TEST_CASE("a transport is known in at most three places beside its own files") {
  std::set<std::string> others;
  for (const std::string& unit : units_naming(R"(\bTransportKind::ucx\b|\bmake_ucx_transport\b|[|]ucx\b)"))
    if (unit.rfind("comm/ucx/", 0) != 0 && unit != "comm/no_ucx") others.insert(unit);
  for (const std::string& unit : others) UNSCOPED_INFO(unit);
  CHECK(others.count("comm/transport") == 1);
  CHECK(others.size() <= 3);
}
