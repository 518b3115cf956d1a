#include "actors/training/checkpoint/base_fingerprint.hpp"

#include <algorithm>
#include <vector>

#include "core/checksum.hpp"

namespace pipetrain {

std::uint64_t base_fingerprint(const ModelConfig& config, const WeightSource& weights) {
  constexpr std::int64_t most_elements = 4096;
  std::vector<std::uint64_t> sums;
  for (const NamedShape& tensor : logical_tensors(config)) {
    Parameter rows;
    rows.name = tensor.name;
    rows.full = tensor.shape;
    rows.split_axis = 0;
    const std::int64_t count = tensor.shape[0], size = tensor.shape.elements() / std::max<std::int64_t>(count, 1);
    rows.local =
        tensor.shape.with(0, std::min(count, std::max<std::int64_t>(most_elements / std::max<std::int64_t>(size, 1), 1)));
    std::vector<float> values(static_cast<std::size_t>(rows.local.elements()));
    weights.load(rows, values.data());
    sums.push_back(checksum(tensor.name.data(), tensor.name.size()));
    sums.push_back(checksum(values.data(), values.size() * sizeof(float)));
  }
  return checksum(sums.data(), sums.size() * sizeof(std::uint64_t));
}

}  // namespace pipetrain
