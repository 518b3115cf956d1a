#include "ops/cpu/rows.hpp"

#include <cstring>
#include <vector>

#include "core/half.hpp"

namespace pipetrain::cpu {
namespace {

// The thread's free memory: as many pieces as were ever in use at once, the last returned on top. Pieces are
// returned in the reverse order, so that each tile gets the same pieces again.
struct Kept {
  std::vector<std::vector<float>> pieces;
  std::size_t used = 0;
};

Kept& kept() {
  thread_local Kept memory;
  return memory;
}

}  // namespace

Floats::Floats(std::int64_t count) {
  if (count == 0) return;
  Kept& memory = kept();
  if (memory.used == memory.pieces.size()) memory.pieces.emplace_back();
  auto& piece = memory.pieces[memory.used];
  if (piece.size() < static_cast<std::size_t>(count)) piece.resize(static_cast<std::size_t>(count));
  ++memory.used;
  data_ = piece.data();
}

Floats::~Floats() {
  if (data_ != nullptr) --kept().used;
}

void widen(DType type, const void* from, std::int64_t count, float* to) {
  const auto* const bits = static_cast<const std::uint16_t*>(from);
  if (type == DType::bf16) {
    for (std::int64_t i = 0; i < count; ++i) to[i] = from_bf16(bits[i]);
  } else if (type == DType::f16) {
    for (std::int64_t i = 0; i < count; ++i) to[i] = from_f16(bits[i]);
  } else {
    std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(float));
  }
}

void narrow(DType type, const float* from, std::int64_t count, void* to) {
  auto* const bits = static_cast<std::uint16_t*>(to);
  if (type == DType::bf16) {
    for (std::int64_t i = 0; i < count; ++i) bits[i] = to_bf16(from[i]);
  } else if (type == DType::f16) {
    for (std::int64_t i = 0; i < count; ++i) bits[i] = to_f16(from[i]);
  } else {
    std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(float));
  }
}

void round_in_place(DType type, float* values, std::int64_t count) {
  if (type == DType::f32) return;
  const Floats narrowed(count);
  narrow(type, values, count, narrowed.data());
  widen(type, narrowed.data(), count, values);
}

}  // namespace pipetrain::cpu
