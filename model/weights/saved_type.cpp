#include "model/weights/saved_type.hpp"

#include <bit>
#include <cmath>
#include <cstring>

namespace pipetrain {
namespace {

std::uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>(bits >> 16 | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7fffU + (bits >> 16 & 1U)) >> 16);
}

// IEEE 754 binary16.
std::uint16_t to_fp16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 16 & 0x8000U, magnitude = bits & 0x7fffffffU;
  if (magnitude > 0x7f800000U) return static_cast<std::uint16_t>(sign | 0x7e00U);
  if (magnitude >= 0x477ff000U) return static_cast<std::uint16_t>(sign | 0x7c00U);  // rounds beyond 65,504
  if (magnitude < 0x38800000U) {  // subnormal: a multiple of 2^-24, which the sum with 1/2 rounds to
    const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - std::bit_cast<std::uint32_t>(0.5F)));
  }
  const std::uint32_t rounded = magnitude + 0xfffU + (magnitude >> 13 & 1U);
  return static_cast<std::uint16_t>(sign | ((rounded - (std::uint32_t{127 - 15} << 23)) >> 13));
}

}  // namespace

std::size_t bytes_of(SavedType type) noexcept { return type == SavedType::fp32 ? 4 : 2; }

const char* safetensors_name(SavedType type) noexcept {
  return type == SavedType::fp32 ? "F32" : type == SavedType::bf16 ? "BF16" : "F16";
}

const char* transformers_name(SavedType type) noexcept {
  return type == SavedType::fp32 ? "float32" : type == SavedType::bf16 ? "bfloat16" : "float16";
}

bool round_to(SavedType type, const float* values, std::size_t count, void* out) noexcept {
  if (type == SavedType::fp32) {
    std::memcpy(out, values, count * sizeof(float));
    return true;
  }
  auto* const rounded = static_cast<std::uint16_t*>(out);
  bool fits = true;
  for (std::size_t i = 0; i < count; ++i) {
    rounded[i] = type == SavedType::bf16 ? to_bf16(values[i]) : to_fp16(values[i]);
    const std::uint16_t infinite = type == SavedType::bf16 ? 0x7f80 : 0x7c00;
    fits &= (rounded[i] & 0x7fffU) != infinite || std::isinf(values[i]);
  }
  return fits;
}

}  // namespace pipetrain
