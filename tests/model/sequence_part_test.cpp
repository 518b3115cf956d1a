#include "model/context/sequence_part.hpp"

#include <set>

#include "catch.hpp"

using namespace pipetrain;

TEST_CASE("the parts of a sequence's slices have each position once, and ranges of tokens are contiguous") {
  for (const int size : {1, 2, 3}) {
    std::set<std::int64_t> positions;
    std::int64_t first = 0;
    for (const std::int64_t length : {12, 24, 36}) {
      const std::int64_t own = length / size;
      for (int rank = 0; rank < size; ++rank) {
        const SequencePart part{{rank, size}, first};
        for (std::int64_t token = 0; token < own; ++token) {
          CHECK(positions.insert(part.position(token, own)).second);
          const std::int64_t run = part.run(token, own);
          CHECK((run >= 1 && token + run <= own));
          CHECK(part.position(token + run - 1, own) == part.position(token, own) + run - 1);
        }
      }
      first += length;
    }
    CHECK(positions.size() == 72);
    CHECK(*positions.rbegin() == 71);
  }
}

TEST_CASE("the slices of all ranks' parts have each position of a sequence once, the longest slices first") {
  for (const int size : {1, 2}) {
    for (const int slices : {1, 2, 5}) {
      const std::int64_t own = size == 1 ? 13 : 20;  // if ranks share sequences, slices have one length
      std::set<std::int64_t> positions;
      for (int rank = 0; rank < size; ++rank) {
        const SequenceSlices passing{{rank, size}, own, slices};
        for (int slice = 0; slice < slices; ++slice) {
          if (slice > 0) CHECK(passing.count(slice) <= passing.count(slice - 1));
          for (std::int64_t token = 0; token < passing.count(slice); ++token)
            CHECK(positions.insert(passing.part(slice).position(token, passing.count(slice))).second);
        }
      }
      CHECK(std::ssize(positions) == own * size);
      CHECK(*positions.rbegin() == own * size - 1);
    }
  }
}
