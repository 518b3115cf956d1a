// Where sequences begin for a rank that has a part of each: what operations that count positions ask (BlockContext::origins).
// Not thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "core/buffer.hpp"
#include "core/stream.hpp"
#include "model/blocks/microbatch.hpp"
#include "model/context/context_part.hpp"

namespace pipetrain {

class PositionOrigins {
 public:
  // largest: of a microbatch's part. Takes memory of the stream's device, and of the host. The stream outlives it. Throws
  // Error(out_of_memory).
  PositionOrigins(const ContextPart& part, const MicrobatchShape& largest, Stream& stream);

  // Of microbatches of so many tokens of each sequence, for what the stream gets from now on. Once the copy of the call before
  // has run.
  void set_sequence(std::int64_t sequence);
  const Tensor& tensor() const { return tensor_; }

  static std::size_t bytes(const MicrobatchShape& largest) { return static_cast<std::size_t>(largest.tokens()) * 4; }

 private:
  ContextPart part_;
  std::int64_t batch_, sequence_ = 0;
  Stream& stream_;
  Buffer memory_, host_memory_;
  Tensor tensor_;  // [T] i32
};

}  // namespace pipetrain
