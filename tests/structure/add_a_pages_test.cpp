// The pages "add a ..." promise how many files mention one family, one operation, one optimizer, one transport: a new
// one changes as many.
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <utility>

#include "catch.hpp"
#include "structure/source_files.hpp"

using namespace pipetrain::structure;

namespace {

// Returns the files of the rooms that run a model, or of those that `rooms` matches, whose code matches, without comments.
std::set<std::string> files_naming(const std::string& pattern,
                                   const std::string& rooms = "(actors|apps|comm|core|model|ops|schedules|tuning)/.*") {
  const std::regex in_rooms(rooms), names(pattern);
  std::set<std::string> found;
  for (const std::string& path : source_files()) {
    if (!std::regex_match(path, in_rooms)) continue;
    std::istringstream lines(text_of(path));
    for (std::string line; std::getline(lines, line);)
      if (std::regex_search(line.substr(0, line.find("//")), names)) found.insert(path);
  }
  return found;
}

// Returns the paths of product files in the first column of a page's tables.
std::set<std::string> paths_promised(const std::string& page) {
  static const std::regex product("(actors|apps|model|ops|tuning)/[A-Za-z0-9_/.]+");
  std::set<std::string> paths;
  std::istringstream lines(text_of(page));
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("| ")) continue;
    const std::string column = line.substr(0, line.find('|', 1));
    for (std::sregex_iterator path(column.begin(), column.end(), product), end; path != end; ++path) {
      const std::string before = column.substr(0, static_cast<std::size_t>(path->position()));
      if (!before.ends_with("/")) paths.insert(path->str());  // otherwise it is a path of tests
    }
  }
  return paths;
}

std::string without_ending(const std::string& path) { return path.substr(0, path.rfind('.')); }

// Counts a source and its header as one.
std::set<std::string> units_naming(const std::string& pattern) {
  std::set<std::string> units;
  for (const std::string& path : files_naming(pattern)) units.insert(without_ending(path));
  return units;
}

// `name` replaces NAME in the page.
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
  for (const auto& [name, pattern] :
       {std::pair<std::string, std::string>{"gpt2", R"(\bgpt2)"}, {"seed_oss", R"(\bseed[-_]oss)"}}) {
    auto files = files_naming(pattern);
    files.erase("model/weights/llmc_model.cpp");  // a format that only GPT-2 has, whatever families there are
    INFO(name);
    CHECK(files.count("model/families/" + name + ".cpp") == 1);
    CHECK(files.size() <= 5);
    check_listed("docs/add-a-model.md", name, files);
  }
}

TEST_CASE("an optimizer is known in at most seven files, which docs/add-an-optimizer.md lists") {
  const std::string page = "docs/add-an-optimizer.md";
  const auto files = files_naming(R"(\blion(_rule)?\b|\bLion(Rule)?\b)");
  CHECK(files.count("ops/update.hpp") == 1);
  CHECK(files.count("model/optimizer/optimizer.cpp") == 1);
  CHECK(files.size() <= 7);
  check_listed(page, "lion", files);
  CHECK(text_of(page).find("at most seven files") != std::string::npos);
  CHECK(paths_promised(page).size() <= 7);
}

TEST_CASE("an operation is known in at most nine files, which docs/add-an-op.md lists") {
  const std::string page = "docs/add-an-op.md";
  for (const auto& [name, pattern] : {std::pair{"gelu", R"(\bgelu_backward\b|\bGeluBackwardArgs\b)"},
                                      {"dropout", R"(\bDropoutArgs\b|\bdropout\(CpuStream)"},
                                      {"swiglu", R"(\bswiglu_backward\b|\bSwigluBackwardArgs\b)"}}) {
    const auto files = files_naming(pattern, "ops/.*");
    INFO(name);
    CHECK(files.count(std::string("ops/cpu/") + name + ".cpp") == 1);
    CHECK(files.count(std::string("ops/cuda/") + name + ".cu") == 1);
    CHECK(files.size() <= 9);
    check_listed(page, name, files);
  }
  CHECK(text_of(page).find("at most nine files") != std::string::npos);
  CHECK(paths_promised(page).size() == 9);
}

TEST_CASE("a transport is known in at most three files besides its own") {
  std::set<std::string> others;
  for (const std::string& unit : units_naming(R"(\bTransportKind::ucx\b|\bmake_ucx_transport\b|[|]ucx\b)"))
    if (unit.rfind("comm/ucx/", 0) != 0 && unit != "comm/no_ucx") others.insert(unit);
  for (const std::string& unit : others) UNSCOPED_INFO(unit);
  CHECK(others.count("comm/transport") == 1);
  CHECK(others.size() <= 3);
}

TEST_CASE("a setting is known in three files, its struct, its row and its use, as docs/add-an-option.md says") {
  for (const auto& [name, pattern] : {std::pair{"keep_every", R"(\bkeep_every\b)"},
                                      {"clip_norm", R"(\bclip_norm\b)"},
                                      {"activation_fraction", R"(\bactivation_fraction\b)"},
                                      {"hysteresis", R"((settings_\.|::)hysteresis\b|\bhysteresis = )"}}) {
    const auto files = files_naming(pattern);
    for (const std::string& file : files) UNSCOPED_INFO(name << " is named in " << file);
    const auto has_row = [](const std::string& file) {
      return file.ends_with("_setting_rows.cpp") || file == "actors/training/job/setting_table.cpp";
    };
    CHECK(std::count_if(files.begin(), files.end(), has_row) == 1);
    CHECK(files.size() == 3);
  }
  CHECK(text_of("docs/add-an-option.md").find("three files") != std::string::npos);
}

TEST_CASE("a mesh axis is known in at most 45 files, which docs/add-a-mesh-axis.md lists") {
  const auto files = files_naming(R"(\bcp\b(?!\.(async|reduce)))");  // but not the instruction cp.async of GPUs
  CHECK(files.count("core/mesh.hpp") == 1);
  CHECK(files.size() <= 45);
  check_listed("docs/add-a-mesh-axis.md", "no name", files);
}
