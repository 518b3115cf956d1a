// A header of tens of thousands of lines is reached by few source files, because each costs seconds of every build. The
// others use a header of ours that does not include it.
#include <map>
#include <set>
#include <string>
#include <vector>

#include "catch.hpp"
#include "structure/source_files.hpp"

using namespace pipetrain::structure;

namespace {

struct HeavyHeader {
  std::string begin;  // of its name, and of the names of its parts
  std::size_t limit;  // source files that may reach it
  std::string instead;
};

const std::vector<HeavyHeader>& heavy_headers() {
  static const std::vector<HeavyHeader> table = {
      {"nlohmann/", 2, "files/json.hpp, which reads JSON, or files/json_value.hpp, whose Json::dump() writes it"},
      {"simdjson.h", 2, "data/rows/jsonl_row.hpp or data/tokenizers/text/utf8.hpp"},
      {"CLI/", 1, "apps/options/option_layers.hpp"},
      {"toml++/", 1, "apps/options/option_layers.hpp"},
      {"boost/asio", 8, "comm/control_plane.hpp"},
      {"boost/beast", 1, "comm/served/page_server.hpp"},
      {"caf/", 17, "actors/engine/pipeline.hpp"},
      {"cudnn_frontend", 1, "ops/cuda/attention/attention_cudnn.hpp"},
      {"nanobind/", 9, "a header of bindings/guest"},
  };
  return table;
}

// Maps each file of the product to its includes.
using IncludesOfFile = std::map<std::string, std::vector<Include>>;

bool is_product(const std::string& path) {
  for (const char* other : {"tests/", "bench/", "examples/"})
    if (path.starts_with(other)) return false;
  return true;
}

IncludesOfFile product_includes() {
  IncludesOfFile includes;
  for (const std::string& path : source_files())
    if (is_product(path)) includes[path] = includes_of(path);
  return includes;
}

// Returns "a.cpp -> b.hpp -> boost/asio.hpp", or "" if the file does not reach such a header.
std::string way_to(const HeavyHeader& header, const IncludesOfFile& includes, const std::string& from,
                   std::set<std::string>& seen) {
  if (!seen.insert(from).second) return "";
  const auto found = includes.find(from);
  if (found == includes.end()) return "";
  for (const Include& include : found->second) {
    if (include.name.starts_with(header.begin)) return from + " -> " + include.name;
    if (!include.in_quotes) continue;
    const std::string rest = way_to(header, includes, include.name, seen);
    if (!rest.empty()) return from + " -> " + rest;
  }
  return "";
}

// Returns one path for each source file that reaches the header.
std::vector<std::string> ways_to(const HeavyHeader& header, const IncludesOfFile& includes) {
  std::vector<std::string> ways;
  for (const auto& [path, _] : includes) {
    if (!path.ends_with(".cpp") && !path.ends_with(".cu")) continue;
    std::set<std::string> seen;
    const std::string way = way_to(header, includes, path, seen);
    if (!way.empty()) ways.push_back(way);
  }
  return ways;
}

// Returns an empty text if the limit holds.
std::string complaint(const HeavyHeader& header, const IncludesOfFile& includes) {
  const std::vector<std::string> ways = ways_to(header, includes);
  if (ways.size() <= header.limit) return "";
  std::string text = std::to_string(ways.size()) + " source files reach " + header.begin + ", more than " +
                     std::to_string(header.limit) + "; include " + header.instead + " instead:";
  for (const std::string& way : ways) text += "\n  " + way;
  return text;
}

}  // namespace

TEST_CASE("few source files reach each heavy header") {
  const IncludesOfFile includes = product_includes();
  CHECK(includes.size() > 700);
  for (const HeavyHeader& header : heavy_headers()) {
    CHECK(complaint(header, includes) == "");
    CHECK(!ways_to(header, includes).empty());  // a header that nobody includes any more must leave the table
  }
}

TEST_CASE("the count of heavy headers follows includes, and names the files and what to include instead") {
  const IncludesOfFile includes = {{"a.cpp", {{"own.hpp", true}, {"vector", false}}},
                                   {"b.cpp", {{"heavy/all.hpp", false}}},
                                   {"c.cu", {{"other.hpp", true}}},
                                   {"own.hpp", {{"other.hpp", true}, {"inner.hpp", true}}},
                                   {"inner.hpp", {{"own.hpp", true}, {"heavy/part.hpp", false}}},
                                   {"other.hpp", {{"heavy.hpp", true}}}};
  CHECK(complaint({"heavy/", 2, "facade.hpp"}, includes) == "");
  CHECK(complaint({"heavy/", 1, "facade.hpp"}, includes) ==
        "2 source files reach heavy/, more than 1; include facade.hpp instead:\n"
        "  a.cpp -> own.hpp -> inner.hpp -> heavy/part.hpp\n"
        "  b.cpp -> heavy/all.hpp");
}
