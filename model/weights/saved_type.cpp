#include "model/weights/saved_type.hpp"

#include <cmath>
#include <cstring>

#include "core/half.hpp"

namespace pipetrain {
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
    rounded[i] = type == SavedType::bf16 ? to_bf16(values[i]) : to_f16(values[i]);
    const std::uint16_t infinite = type == SavedType::bf16 ? 0x7f80 : 0x7c00;
    fits &= (rounded[i] & 0x7fffU) != infinite || std::isinf(values[i]);
  }
  return fits;
}

}  // namespace pipetrain
