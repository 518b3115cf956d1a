// A class is one concept: it fits 250 lines, its declaration and the definitions of its functions in all files together.
#include <map>
#include <sstream>
#include <string>

#include "catch.hpp"
#include "structure/function_reader.hpp"
#include "structure/source_files.hpp"

using namespace pipetrain::structure;

namespace {

constexpr int most_class_lines = 250;

// Returns the lines of each class and struct at namespace scope. clang-format begins and ends them in the first column.
std::map<std::string, int> declared_lines(const std::string& code) {
  std::map<std::string, int> lines;
  std::istringstream stream(code);
  std::string name;
  int count = 0;
  for (std::string line; std::getline(stream, line);) {
    const bool begins = line.starts_with("class ") || line.starts_with("struct ");
    if (name.empty() && begins && line.find(';') == std::string::npos) {
      std::istringstream words(line);
      words >> name >> name;
      count = 0;
    }
    if (name.empty()) continue;
    ++count;
    if (!line.starts_with("}") && !(count == 1 && line.ends_with("};"))) continue;
    lines[name] += count;
    name.clear();
  }
  return lines;
}

// Returns the lines of classes by folder and name, "comm/ucx: UcxPeers". A nested class counts with the one around it.
std::map<std::string, int> lines_of_classes() {
  std::map<std::string, int> lines;
  std::map<std::string, int> defined;
  for (const std::string& path : source_files()) {
    if (path.starts_with("tests/")) continue;
    const std::string folder = path.substr(0, path.rfind('/')) + ": ", code = text_of(path);
    for (const auto& [name, count] : declared_lines(code)) lines[folder + name] += count;
    for (const Function& function : functions_of(code))
      if (const auto end = function.name.find("::"); end != std::string::npos)
        defined[folder + function.name.substr(0, end)] += function.lines;
  }
  for (const auto& [name, count] : defined)
    if (const auto found = lines.find(name); found != lines.end()) found->second += count;
  return lines;
}

}  // namespace

TEST_CASE("the lines of a class are those of its declaration") {
  const auto lines = declared_lines("class A;\nclass B final : public A {\n  struct C {\n  };\n};\nstruct D {\n};\n");
  CHECK((lines.size() == 2 && lines.at("B") == 4 && lines.at("D") == 2));
}

TEST_CASE("no class is longer than 250 lines over all its files") {
  std::size_t classes = 0;
  for (const auto& [name, count] : lines_of_classes()) {
    ++classes;
    INFO(name << " has " << count << " lines, more than " << most_class_lines << "; divide it by its concepts");
    CHECK(count <= most_class_lines);
  }
  CHECK(classes > 500);
}
