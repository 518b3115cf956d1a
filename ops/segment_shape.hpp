// The queries and keys of one microbatch's attention on one rank: segments of the positions of the same sequences.
#pragma once

#include <cstdint>

namespace pipetrain {

struct HeadShape {
  std::int64_t heads = 1;     // query heads, Hq
  std::int64_t kv_heads = 1;  // key and value heads, Hkv; divides Hq
  std::int64_t head_dim = 1;  // D
};

// A whole sequence is one segment whose queries are its keys. A query attends to the keys up to its own position.
struct SegmentShape {
  std::int64_t batch = 1;
  std::int64_t queries = 1, keys = 1;           // in each sequence
  std::int64_t first_query = 0, first_key = 0;  // their first positions in the sequence
  std::int64_t heads = 1, kv_heads = 1, head_dim = 1;
  // Values may have another number of columns than queries and keys, V in place of D; 0: D.
  std::int64_t own_value_dim = 0;
  // A query attends to the last `window` positions up to its own; 0: to all of them.
  std::int64_t window = 0;
  // A query also attends to the first `sinks` positions (Xiao et al. 2023, "Efficient Streaming Language Models with Attention
  // Sinks"), and to the last `stripe` of each `period` positions, where `period` is not 0 (Child et al. 2019, "Generating Long
  // Sequences with Sparse Transformers"). With `block` the window ends with the query's block of so many positions, so that it
  // begins at a block; it still hides what comes after the query. With isolated documents positions count from the document's
  // first.
  std::int64_t sinks = 0, block = 0, period = 0, stripe = 0;

  float scale = 0;  // of the scores; 0: 1 / sqrt(D)

  float score_scale() const;
  double exact_score_scale() const;  // before it is rounded to fp32
  std::int64_t tokens() const { return batch * queries; }
  std::int64_t value_dim() const { return own_value_dim > 0 ? own_value_dim : head_dim; }
  std::int64_t query_cols() const { return heads * head_dim; }
  std::int64_t output_cols() const { return heads * value_dim(); }
  std::int64_t key_value_cols() const { return kv_heads * (head_dim + value_dim()); }
  // The packed matrix qkv [T, (Hq + 2 Hkv) D] holds all query heads, then all key heads, then all value heads of a token.
  std::int64_t packed_cols() const { return query_cols() + key_value_cols(); }

  bool is_whole() const { return queries == keys && first_query == first_key; }
  // Returns true if the queries are the last positions of the keys, as in a slice of a sequence.
  bool ends_together() const { return first_query + queries == first_key + keys && queries <= keys; }
  // Returns true if no key comes after any query.
  bool sees_all_keys() const { return first_key + keys <= first_query + 1; }
  // Returns true for patterns beyond a window that ends at the query.
  bool is_sparse() const { return sinks > 0 || block > 0 || period > 0; }
  // Returns the first position that the window of a query at this position shows.
  std::int64_t window_begin(std::int64_t position) const {
    if (window == 0) return 0;
    const std::int64_t end = block > 0 ? (position / block + 1) * block : position + 1;
    return end > window ? end - window : 0;
  }
  // Returns true if the window hides a key from some query. A window that ends with a block hides more.
  bool is_windowed() const { return window > 0 && first_query + queries - first_key > window; }
};

inline SegmentShape whole_sequences(std::int64_t batch, std::int64_t sequence, const HeadShape& heads) {
  return {.batch = batch,
          .queries = sequence,
          .keys = sequence,
          .heads = heads.heads,
          .kv_heads = heads.kv_heads,
          .head_dim = heads.head_dim};
}

}  // namespace pipetrain
