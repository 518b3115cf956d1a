#include "model/blocks/position_origins.hpp"

#include "core/device.hpp"

namespace pipetrain {

PositionOrigins::PositionOrigins(const ContextPart& part, const MicrobatchShape& largest, Stream& stream)
    : part_(part),
      batch_(largest.batch),
      stream_(stream),
      memory_(stream.device().allocate(bytes(largest), "positions of this rank's tokens")),
      host_memory_(stream.device().allocate_host(bytes(largest), "positions of this rank's tokens")) {
  set_sequence(largest.sequence);
  stream_.synchronize();
}

void PositionOrigins::set_sequence(std::int64_t sequence) {
  if (sequence == sequence_) return;
  sequence_ = sequence;
  tensor_ = {memory_.data(), {batch_ * sequence}, DType::i32};
  auto* const origins = static_cast<std::int32_t*>(host_memory_.data());
  for (std::int64_t token = 0; token < batch_ * sequence; ++token) {
    const std::int64_t own = token % sequence;
    origins[token] = static_cast<std::int32_t>(own - part_.position(own, sequence));
  }
  stream_.copy(tensor_.data, origins, tensor_.bytes());
}

}  // namespace pipetrain
