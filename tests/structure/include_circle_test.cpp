// No header includes itself through others. The compiler does not report it: #pragma once hides it, until the order of
// two includes decides whether a file compiles.
#include <map>
#include <set>
#include <string>
#include <vector>

#include "catch.hpp"
#include "structure/source_files.hpp"

using namespace pipetrain::structure;

namespace {

using Includes = std::map<std::string, std::vector<std::string>>;  // by file, of our own headers

Includes includes_of_repository() {
  const std::vector<std::string> files = source_files();
  const std::set<std::string> known(files.begin(), files.end());
  Includes includes;
  for (const std::string& file : files) {
    for (const Include& include : includes_of(file)) {
      // Tests include from the root and from tests/.
      for (const std::string& name : {include.name, "tests/" + include.name})
        if (include.in_quotes && known.count(name) > 0) includes[file].push_back(name);
    }
  }
  return includes;
}

// Searches depth first; `path` leads from a file to the current one.
class CircleSearch {
 public:
  explicit CircleSearch(const Includes& includes) : includes_(includes) {}

  std::vector<std::string> run() {
    for (const auto& [file, _] : includes_) visit(file);
    return circles_;
  }

 private:
  void visit(const std::string& file) {
    if (on_path_.count(file) > 0) {
      std::string circle;
      for (const std::string& step : path_) circle += step + " -> ";
      circles_.push_back(circle + file);
      return;
    }
    if (!done_.insert(file).second) return;
    path_.push_back(file);
    on_path_.insert(file);
    if (const auto found = includes_.find(file); found != includes_.end())
      for (const std::string& included : found->second) visit(included);
    on_path_.erase(file);
    path_.pop_back();
  }

  const Includes& includes_;
  std::vector<std::string> path_, circles_;
  std::set<std::string> on_path_, done_;
};

}  // namespace

TEST_CASE("no header includes itself through others") {
  const Includes includes = includes_of_repository();
  CHECK(includes.size() > 400);
  for (const std::string& circle : CircleSearch(includes).run()) {
    INFO(circle);
    CHECK(false);
  }
}

TEST_CASE("the search for circles finds one") {
  const Includes circle{{"a", {"b", "c"}}, {"b", {"c"}}, {"c", {"d"}}, {"d", {"b"}}};
  CHECK(CircleSearch(circle).run() == std::vector<std::string>{"a -> b -> c -> d -> b"});
  CHECK(CircleSearch({{"a", {"b", "c"}}, {"b", {"c"}}}).run().empty());
}
