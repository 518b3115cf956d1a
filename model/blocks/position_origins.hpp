// PositionOrigins holds where sequences begin for a rank that computes a part of each (BlockContext::origins).
// Not thread-safe.
#pragma once

#include <cstdint>

#include "core/buffer.hpp"
#include "core/stream.hpp"
#include "model/blocks/microbatch.hpp"
#include "model/context/context_part.hpp"

namespace pipetrain {

class PositionOrigins {
 public:
  // largest: the largest part of a microbatch. Allocates memory of the stream's device and of the host. The
  // stream outlives this object. Throws Error(out_of_memory).
  PositionOrigins(const ContextPart& part, const MicrobatchShape& largest, Stream& stream);

  // Sets the tokens of each sequence for all work that is enqueued from now on. The copy of the previous call must have run.
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
