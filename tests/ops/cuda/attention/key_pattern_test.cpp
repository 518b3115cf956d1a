// Which keys a pattern of attention shows, and the tiles of keys that kernels visit for it: host code, which needs no GPU.
#include "ops/cuda/attention/key_pattern.hpp"

#include <cstdint>
#include <set>
#include <vector>

#include "catch.hpp"
#include "ops/cpu/attention_head.hpp"
#include "ops/cuda/attention/attention_choice.hpp"

namespace pipetrain::testing {
namespace {

using cuda::KeyPattern;
using cuda::KeyReach;

struct PatternCase {
  SegmentShape shape;
  std::int64_t document = 0;  // length, 0: one a sequence
};

// The keys that each query of a sequence sees, as CPUs compute it.
std::vector<std::set<int>> keys_on_cpu(const PatternCase& of, const std::vector<std::int32_t>& documents) {
  const cpu::Sight sight(of.shape, documents.data(), {}, 0);
  std::vector<std::set<int>> keys(static_cast<std::size_t>(of.shape.queries));
  for (std::int64_t query = 0; query < of.shape.queries; ++query)
    sight.for_each_range(query, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t key = begin; key < end; ++key) keys[static_cast<std::size_t>(query)].insert(static_cast<int>(key));
    });
  return keys;
}

std::vector<std::int32_t> documents_of(const PatternCase& of) {
  std::vector<std::int32_t> documents;
  for (std::int64_t query = 0; query < of.shape.queries; ++query) {
    const std::int64_t position = of.shape.first_query + query;
    documents.push_back(static_cast<std::int32_t>(of.document == 0 ? 0 : position - position % of.document));
  }
  return documents;
}

struct Tiling {
  KeyPattern pattern;
  std::vector<KeyReach> reaches;  // of each query
  std::vector<std::set<int>> keys;
  int tile, end;  // end: the number of keys
};

// Returns the tiles of keys that some query of the tile of queries from `first` on sees.
std::set<int> seen_tiles(const Tiling& of, int first) {
  std::set<int> tiles;
  for (int query = first; query < first + of.tile && query < static_cast<int>(of.keys.size()); ++query)
    for (const int key : of.keys[static_cast<std::size_t>(query)]) tiles.insert(key / of.tile * of.tile);
  return tiles;
}

void check_tiles(const Tiling& of) {
  const int queries = static_cast<int>(of.keys.size());
  for (int first = 0; first < queries; first += of.tile) {
    const KeyReach lowest = of.reaches[static_cast<std::size_t>(first)];
    std::set<int> visited;
    for (int key = of.pattern.next_tile(lowest, 0, of.tile); key < of.end;
         key = of.pattern.next_tile(lowest, key + of.tile, of.tile)) {
      REQUIRE(key % of.tile == 0);
      REQUIRE(visited.insert(key).second);
    }
    for (const int tile : seen_tiles(of, first)) CHECK(visited.count(tile) == 1);
    for (int key = 0; key < of.end; key += of.tile) {
      CHECK(of.pattern.shows_tile(lowest, key, of.tile) == (visited.count(key) == 1));
      if (visited.count(key) == 1 || !of.pattern.is_past(lowest, key, of.tile)) continue;
      for (int later = first; later < queries; later += of.tile) CHECK(seen_tiles(of, later).count(key) == 0);
    }
  }
}

void check_pattern(const PatternCase& of) {
  const std::vector<std::int32_t> documents = documents_of(of);
  Tiling tiling{.pattern = cuda::pattern_of(of.shape),
                .reaches = {},
                .keys = keys_on_cpu(of, documents),
                .tile = 8,
                .end = static_cast<int>(of.shape.keys)};
  const int ahead = static_cast<int>(of.shape.first_query - of.shape.first_key);
  for (int query = 0; query < static_cast<int>(of.shape.queries); ++query) {
    const int document = documents[static_cast<std::size_t>(query)] - static_cast<int>(of.shape.first_key);
    const KeyReach reach = tiling.pattern.reach(query + ahead, document);
    tiling.reaches.push_back(reach);
    std::set<int> shown;
    for (int key = 0; key < tiling.end && key <= query + ahead; ++key)
      if (tiling.pattern.shows(reach, key)) shown.insert(key);
    REQUIRE((shown == tiling.keys[static_cast<std::size_t>(query)]));
  }
  for (const int tile : {4, 8, 32}) {
    tiling.tile = tile;
    check_tiles(tiling);
  }
}

TEST_CASE("GPU kernels see the keys of a pattern that CPUs see, and visit every tile that has one", "[ops][segments]") {
  const SegmentShape whole = whole_sequences(1, 150, {1, 1, 8});
  SegmentShape later = whole, apart = whole;
  later.queries = 60, later.first_query = 90;
  apart.queries = 40, apart.first_query = 100, apart.keys = 48, apart.first_key = 16;
  struct Pattern {
    std::int64_t window, sinks = 0, block = 0, period = 0, stripe = 0;
  };
  for (const Pattern& pattern :
       {Pattern{3, 2}, Pattern{70, 4}, Pattern{20, 33}, Pattern{400, 4}, Pattern{1, 1}, Pattern{32, 16, 16},
        Pattern{64, 0, 64, 64, 16}, Pattern{8, 3, 4, 8, 2}, Pattern{5, 0, 0, 40, 3}, Pattern{0, 4}}) {
    for (const SegmentShape& segment : {whole, later, apart}) {
      for (const std::int64_t document : {0, 40, 23, 7}) {
        SegmentShape shape = segment;
        shape.window = pattern.window, shape.sinks = pattern.sinks, shape.block = pattern.block;
        shape.period = pattern.period, shape.stripe = pattern.stripe;
        INFO("window " << shape.window << ", sinks " << shape.sinks << ", block " << shape.block << ", period " << shape.period
                       << ", queries from " << shape.first_query << ", documents of " << document);
        check_pattern({shape, document});
      }
    }
  }
}

TEST_CASE("the window and the sinks before it are segments that share the keys of a pattern", "[ops][segments]") {
  SegmentShape shape = whole_sequences(1, 150, {1, 1, 8});
  for (const std::int64_t window : {1, 20, 64})
    for (const std::int64_t sinks : {1, 30, 149})
      for (const std::int64_t first : {0, 50, 140}) {
        shape.queries = shape.keys - first, shape.first_query = first;
        shape.window = window, shape.sinks = sinks;
        INFO("window " << window << ", sinks " << sinks << ", queries from " << first);
        const auto all = keys_on_cpu({shape}, documents_of({shape}));
        const SegmentShape near = cuda::window_part(shape), far = cuda::sinks_part(shape);
        const auto of_window = keys_on_cpu({near}, documents_of({near})), of_sinks = keys_on_cpu({far}, documents_of({far}));
        for (std::size_t query = 0; query < all.size(); ++query) {
          std::set<int> both = of_window[query];
          for (const int key : of_sinks[query]) REQUIRE(both.insert(key).second);
          REQUIRE((both == all[query]));
        }
      }
}

}  // namespace
}  // namespace pipetrain::testing
