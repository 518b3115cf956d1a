#pragma once

#include <cstddef>
#include <cstdint>

namespace pipetrain {

enum class DType : std::uint8_t { f32, bf16, f16, f64, i32 };

std::size_t size_of(DType dtype) noexcept;    // bytes of one element
const char* to_string(DType dtype) noexcept;  // "f32"

}  // namespace pipetrain
