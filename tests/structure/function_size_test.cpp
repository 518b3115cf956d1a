// Functions fit a screen, and none is called with a row of values that could be swapped unnoticed.
#include <set>
#include <string>
#include <vector>

#include "catch.hpp"
#include "structure/function_reader.hpp"
#include "structure/source_files.hpp"

using namespace pipetrain::structure;

namespace {

constexpr int most_lines = 50, most_parameters = 6;

// Functions that only hold a table of data.
const std::set<std::string> tables{"apps/foreign/foreign_names.cpp: foreign_names", "tests/structure/layering.cpp: streets"};

const std::string sample = R"code(
#define NOT_ONE(a, b) \
  void macro(int a, int b) {}
namespace a::b {
namespace {
struct Point {
  int x{0}, y = 0;
  explicit Point(int one, std::map<int, std::pair<int, int>> two = {{1, {2, 3}}})
      : x{one},
        y(two.size()) {
    use();
  }
  bool operator==(const Point&) const = default;
  int operator()(int, int) const noexcept;
 private:
  std::function<void(int, int)> callback_ = [](int a, int b) { f(a, b); };
};
enum class Kind { one, two };  // f(a, b, c) {
const std::vector<int> table = {
    f(1, 2), 2};
template <class A, class B = std::vector<int>>
auto apply(A a, const B& b) -> decltype(a(b)) {
  if (a < b && b > a) {
    for (;;) return a(b, "} ) \" {", '{', U'}', R"x(}})x");
  }
}
__global__ void kernel(int a, float* b, int c, int d, int e, int f, int g) {}
}  // namespace
std::pair<int, int> Point::both(std::function<void(int, int)> f, int (*g)(int, int)) const {
  return [&] { return 1'000; }();
}
virtual void nothing() = 0;
}  // namespace a::b
TEST_CASE("a case", "[tag]") { CHECK(f(1, 2)); }
)code";

}  // namespace

TEST_CASE("no function is longer than 50 lines or has more than 6 parameters") {
  std::size_t functions = 0;
  std::set<std::string> tables_found;
  for (const std::string& path : source_files()) {
    for (const Function& function : functions_of(text_of(path))) {
      ++functions;
      if (function.on_device || (function.lines <= most_lines && function.parameters <= most_parameters)) continue;
      if (tables.count(path + ": " + function.name) > 0) {
        tables_found.insert(path + ": " + function.name);
        continue;
      }
      INFO(path << ":" << function.line << ": " << function.name << " has " << function.lines << " lines and "
                << function.parameters << " parameters");
      CHECK(false);
    }
  }
  CHECK(functions > 4000);        // the reader works
  CHECK(tables_found == tables);  // no exception outlives its table
}

TEST_CASE("the reader finds functions with their lines and parameters") {
  const auto found = functions_of(sample);
  struct Expected {
    std::string name;
    int line, lines, parameters;
  };
  const std::vector<Expected> expected{{"Point", 8, 5, 2},    {"", 13, 0, 1},         {"", 14, 0, 2},
                                       {"apply", 21, 6, 2},   {"kernel", 27, 1, 7},   {"Point::both", 29, 3, 2},
                                       {"nothing", 32, 0, 0}, {"TEST_CASE", 34, 1, 2}};
  for (const Function& function : found)
    UNSCOPED_INFO(function.line << " " << function.name << " " << function.lines << " " << function.parameters);
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    INFO(expected[i].line << ": " << expected[i].name);
    CHECK(found[i].name == expected[i].name);
    CHECK(found[i].line == expected[i].line);
    CHECK(found[i].lines == expected[i].lines);
    CHECK(found[i].parameters == expected[i].parameters);
    CHECK(found[i].on_device == (found[i].name == "kernel"));
  }
}
