// The keys that a query sees in a pattern of attention, by their indices in a segment, and the tiles of keys that hold one of
// them. Host and device code: every build contains and tests it.
#pragma once

#include "ops/segment_shape.hpp"

namespace pipetrain::cuda {

// The indices of keys, which may be negative, from which a query sees all keys up to its own, and at which its document begins.
struct KeyReach {
  int begin = 0, document = 0;
};

// As in SegmentShape.
struct KeyPattern {
  int window = 0, sinks = 0, block = 0, period = 0, stripe = 0;

  // position: the query's, and document: its document's first position, both counted from the segment's first key.
  constexpr KeyReach reach(int position, int document) const {
    const int within = position - document, end = block > 0 ? (within / block + 1) * block : within + 1;
    return {document + (window > 0 && end > window ? end - window : 0), document};
  }
  // Returns true if a query with this reach sees a key that does not come after it.
  constexpr bool shows(const KeyReach& of, int key) const {
    if (key >= of.begin) return true;
    const int within = key - of.document;
    return within >= 0 && (within < sinks || (period > 0 && within % period >= period - stripe));
  }

  // The following take the reach of the first of consecutive queries of one sequence. A tile is `tile` keys from a multiple of
  // `tile` on. A key before the first query that no key pattern shows to it is shown to none of the others: their windows begin
  // no earlier, and where their documents do, these begin after the first query.

  // Returns the first tile, from the tile at `key` on, that holds a key which one of the queries may see.
  constexpr int next_tile(const KeyReach& first, int key, int tile) const {
    const int documents_tile = first.document > 0 ? first.document / tile * tile : 0;
    if (key < documents_tile) key = documents_tile;
    const int within = key > first.document ? key - first.document : 0;
    if (key + tile > first.begin || within < sinks) return key;
    const int windows_tile = first.begin / tile * tile;
    if (period == 0) return windows_tile;
    const int rest = within % period;
    const int striped = rest >= period - stripe ? within : within + period - stripe - rest;
    const int stripes_tile = (first.document + striped) / tile * tile;
    return stripes_tile < windows_tile ? stripes_tile : windows_tile;
  }
  constexpr bool shows_tile(const KeyReach& first, int key, int tile) const { return next_tile(first, key, tile) == key; }
  // Returns true if no later query sees a tile that these do not see.
  constexpr bool is_past(const KeyReach& first, int key, int tile) const { return period == 0 || key + tile <= first.document; }
};

inline KeyPattern pattern_of(const SegmentShape& s) {
  return {static_cast<int>(s.window), static_cast<int>(s.sinks), static_cast<int>(s.block), static_cast<int>(s.period),
          static_cast<int>(s.stripe)};
}

}  // namespace pipetrain::cuda
