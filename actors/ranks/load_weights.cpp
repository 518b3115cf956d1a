#include "actors/ranks/load_weights.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <numeric>
#include <vector>

#include "core/half.hpp"
#include "core/loading_threads.hpp"
#include "core/threads/on_threads.hpp"

namespace pipetrain {
namespace {

// Rounds values in place: [count] f32 become [count] bf16 or f16 at the same address.
void round_to(DType type, std::span<float> values) {
  auto* const rounded = reinterpret_cast<unsigned char*>(values.data());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint16_t value = type == DType::bf16 ? to_bf16(values[i]) : to_f16(values[i]);
    std::memcpy(rounded + i * sizeof value, &value, sizeof value);
  }
}

}  // namespace

void load_slices(const WeightSource& source, std::size_t count, const std::function<const Parameter&(std::size_t)>& slice,
                 Device& device, const SliceTarget& target) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  // The largest come first, so that no thread starts a large slice when the others have finished.
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return slice(a).local.elements() > slice(b).local.elements(); });
  on_threads(loading_threads(device), count, [&](std::size_t i) {
    const Parameter& parameter = slice(order[i]);
    if (float* const place = target.in_place ? target.in_place(order[i]) : nullptr) return source.load(parameter, place);
    const auto elements = static_cast<std::size_t>(parameter.local.elements());
    const auto values = std::make_unique_for_overwrite<float[]>(elements);
    source.load(parameter, values.get());
    target.store(order[i], {values.get(), elements});
  });
}

void load_weights(const WeightSource& source, const ParameterLayout& layout, Stream& stream, const Tensor& arena) {
  const std::size_t size = size_of(arena.dtype);
  const auto parameter = [&](std::size_t i) -> const Parameter& { return layout.parameters[i]; };
  std::mutex stream_turn;
  const auto store = [&](std::size_t i, std::span<float> values) {
    if (arena.dtype != DType::f32) round_to(arena.dtype, values);
    const std::lock_guard lock(stream_turn);
    stream.copy(static_cast<char*>(arena.data) + parameter(i).offset * size, values.data(), values.size() * size);
    stream.synchronize();
  };
  load_slices(source, layout.parameters.size(), parameter, stream.device(), {.in_place = nullptr, .store = store});
}

void copy_as_floats(Stream& stream, const Tensor& tensor, const Region& elements, float* out) {
  const std::size_t size = size_of(tensor.dtype);
  const char* const first = static_cast<const char*>(tensor.data) + elements.begin * size;
  if (tensor.dtype == DType::f32) {
    stream.copy(out, first, elements.size() * size);
    return stream.synchronize();
  }
  std::vector<std::uint16_t> halves(elements.size());
  stream.copy(halves.data(), first, halves.size() * size);
  stream.synchronize();
  std::transform(halves.begin(), halves.end(), out,
                 [bf16 = tensor.dtype == DType::bf16](std::uint16_t bits) { return bf16 ? from_bf16(bits) : from_f16(bits); });
}

}  // namespace pipetrain
