#pragma once

#include <cstddef>
#include <cstdint>

namespace pipetrain {

// e4m3, e5m2: 8 bits, named after their bits of exponent and mantissa (Micikevicius et al. 2022).
enum class DType : std::uint8_t { f32, bf16, f16, f64, i32, e4m3, e5m2 };

std::size_t size_of(DType dtype) noexcept;    // bytes of one element
const char* to_string(DType dtype) noexcept;  // "f32"

}  // namespace pipetrain
