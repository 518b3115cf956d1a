#include "actors/ranks/load_weights.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <vector>

#include "core/device.hpp"
#include "core/half.hpp"
#include "core/loading_threads.hpp"
#include "core/on_threads.hpp"

namespace pipetrain {
namespace {

// In place: values [count] f32 become [count] bf16 or f16 at the same address.
void round_to(DType type, std::vector<float>& values) {
  auto* const rounded = reinterpret_cast<unsigned char*>(values.data());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint16_t value = type == DType::bf16 ? to_bf16(values[i]) : to_f16(values[i]);
    std::memcpy(rounded + i * sizeof value, &value, sizeof value);
  }
}

}  // namespace

void load_weights(const WeightSource& source, const ParameterLayout& layout, Stream& stream, const Tensor& arena) {
  // The largest first, so that no thread begins with one when the others are done.
  std::vector<const Parameter*> parameters;
  for (const auto& parameter : layout.parameters) parameters.push_back(&parameter);
  std::stable_sort(parameters.begin(), parameters.end(),
                   [](const auto* a, const auto* b) { return a->local.elements() > b->local.elements(); });
  const std::size_t size = size_of(arena.dtype);
  std::mutex stream_turn;
  on_threads(loading_threads(stream.device()), parameters.size(), [&](std::size_t i) {
    const Parameter& parameter = *parameters[i];
    std::vector<float> staging(static_cast<std::size_t>(parameter.local.elements()));
    source.load(parameter, staging.data());
    if (arena.dtype != DType::f32) round_to(arena.dtype, staging);
    const std::lock_guard lock(stream_turn);
    stream.copy(static_cast<char*>(arena.data) + parameter.offset * size, staging.data(), staging.size() * size);
    stream.synchronize();
  });
}

}  // namespace pipetrain
