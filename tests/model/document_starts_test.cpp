#include "model/context/document_starts.hpp"

#include <vector>

#include "catch.hpp"

using namespace pipetrain;

namespace {

// Two samples of 8 tokens, with documents of 3, 5 and of 6, 2.
const std::vector<std::int32_t> whole_places{0, 0, 0, 3, 3, 3, 3, 3, 0, 0, 0, 0, 0, 0, 6, 6};

struct Dealt {
  std::vector<std::int32_t> begins, origins;
  bool operator==(const Dealt&) const = default;
};

Dealt deal(const SequencePart& part, std::size_t tokens) {
  Dealt dealt{std::vector<std::int32_t>(2 * tokens), std::vector<std::int32_t>(2 * tokens)};
  split_documents(part, 8, whole_places, {dealt.begins, dealt.origins});
  return dealt;
}

}  // namespace

TEST_CASE("a rank's tokens know where their documents begin, in the sequence and in what it has of it") {
  CHECK(deal({{1, 2}}, 4) == Dealt{{0, 3, 3, 3, 0, 0, 0, 0}, {-2, 1, 1, 1, -2, -2, -2, -2}});  // chunks 1 and 2 of 4
  CHECK(deal({{0, 2}}, 4) == Dealt{{0, 0, 3, 3, 0, 0, 6, 6}, {0, 0, -1, -1, 0, 0, 2, 2}});
  std::vector<std::int32_t> begins(16);
  split_documents({}, 8, whole_places, {begins});
  CHECK(begins == whole_places);
}

TEST_CASE("a slice's tokens know where their documents begin, which may be in an earlier slice") {
  CHECK(deal({{}, 0}, 5) == Dealt{{0, 0, 0, 3, 3, 0, 0, 0, 0, 0}, {0, 0, 0, 3, 3, 0, 0, 0, 0, 0}});
  CHECK(deal({{}, 5}, 3) == Dealt{{3, 3, 3, 0, 6, 6}, {-2, -2, -2, -5, 1, 1}});
  // In the second slice of 4 tokens, one rank's chunks are its first and its last token.
  CHECK(deal({{0, 2}, 4}, 2) == Dealt{{3, 3, 0, 6}, {-1, -3, -4, 0}});
}
