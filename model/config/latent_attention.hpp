// Latent attention: queries, keys and values are expanded from short latent vectors, and generation caches the latent vectors
// alone (DeepSeek-AI 2024, "DeepSeek-V2: A Strong, Economical, and Efficient Mixture-of-Experts Language Model").
#pragma once

#include <cstdint>

namespace pipetrain {

// The sizes of such an attention. A head's queries and keys have `plain` columns that do not rotate, then `rotated` columns.
// All heads share the rotated columns of their keys, which come from the hidden state directly.
struct LatentAttention {
  std::int64_t query_rank = 0;  // of the latent vector of queries; 0: queries come from the hidden state directly
  std::int64_t key_value_rank = 0;
  std::int64_t plain = 0, rotated = 0;
  std::int64_t value = 0;  // columns of a head's values

  std::int64_t key_columns() const { return plain + rotated; }
  // Returns the columns of all that a token's hidden state is compressed to: the latent vector of queries, that of keys and
  // values, and the rotated columns of the keys.
  std::int64_t compressed_columns() const { return query_rank + key_value_rank + rotated; }
  // Returns the numbers that generation keeps of a position.
  std::int64_t cached_columns() const { return key_value_rank + rotated; }
  bool operator==(const LatentAttention&) const = default;
};

}  // namespace pipetrain
