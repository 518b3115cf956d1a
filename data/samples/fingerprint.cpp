#include "data/samples/fingerprint.hpp"

#include <algorithm>

#include "core/checksum.hpp"

namespace pipetrain {

std::uint64_t data_fingerprint(const Dataset& dataset) {
  Checksum sum;
  sum.add(static_cast<std::uint64_t>(dataset.size()));
  sum.add(static_cast<std::uint64_t>(dataset.sequence_length()));
  sum.add(dataset.content());
  return sum.value();
}

std::uint64_t sampled_fingerprint(const Dataset& dataset) {
  constexpr std::int64_t most_samples = 64;
  std::uint64_t hash = 0xcbf29ce484222325;
  const auto add = [&hash](std::uint64_t value) {
    for (int byte = 0; byte < 8; ++byte, value >>= 8) hash = (hash ^ (value & 0xff)) * 0x100000001b3;
  };
  const std::int64_t size = dataset.size(), samples = std::min(size, most_samples);
  add(static_cast<std::uint64_t>(size));
  add(static_cast<std::uint64_t>(dataset.sequence_length()));
  for (std::int64_t i = 0; i < samples; ++i)  // including the first and the last
    for (const std::int32_t token : dataset.read(i * (size - 1) / std::max<std::int64_t>(samples - 1, 1)))
      add(static_cast<std::uint64_t>(token));
  return hash;
}

}  // namespace pipetrain
