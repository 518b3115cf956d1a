#include "model/context/context_part.hpp"

#include <set>

#include "catch.hpp"

using namespace pipetrain;

TEST_CASE("the parts of a sequence have each position once, and the same to do in causal attention") {
  for (const int size : {1, 2, 3, 4, 8}) {
    const std::int64_t own = 10, all = own * size;
    std::set<std::int64_t> positions;
    for (int rank = 0; rank < size; ++rank) {
      const ContextPart part{rank, size};
      std::int64_t seen = 0;
      for (std::int64_t token = 0; token < own; ++token) {
        const std::int64_t position = part.position(token, own);
        CHECK(positions.insert(position).second);
        CHECK((position >= 0 && position < all));
        seen += position + 1;
      }
      CHECK(seen == own * (all + 1) / 2);
    }
  }
}

TEST_CASE("a rank has a chunk from the front and one from the back") {
  const ContextPart part{1, 2};  // it has chunks 1 and 2 of chunks 0 1 2 3
  CHECK(part.chunk(0) == 1);
  CHECK(part.chunk(1) == 2);
  CHECK(ContextPart{0, 2}.position(3, 4) == 7);
  CHECK(part.position(0, 4) == 2);
  CHECK(part.position(3, 4) == 5);
}
