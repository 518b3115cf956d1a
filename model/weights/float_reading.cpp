#include "model/weights/float_reading.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <vector>

namespace pipetrain {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers lie in files as in memory");

float from_bf16(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); }

// IEEE 754 binary16; exact.
float from_f16(std::uint16_t bits) {
  const std::uint32_t sign = std::uint32_t{bits & 0x8000U} << 16, exponent = (bits >> 10) & 0x1fU, fraction = bits & 0x3ffU;
  if (exponent == 0) {  // zero or subnormal: fraction * 2^-24
    const float magnitude = static_cast<float>(fraction) * 0x1p-24F;
    return sign != 0 ? -magnitude : magnitude;
  }
  const std::uint32_t wide_exponent = exponent == 31 ? 255 : exponent + (127 - 15);
  return std::bit_cast<float>(sign | (wide_exponent << 23) | (fraction << 13));
}

}  // namespace

void read_floats(const InputFile& file, SavedType type, std::uint64_t begin, std::int64_t count, float* out) {
  if (type == SavedType::fp32) return file.read_at(begin, out, static_cast<std::size_t>(count) * sizeof(float));
  const auto convert = type == SavedType::bf16 ? from_bf16 : from_f16;
  constexpr std::int64_t piece = 1 << 16;
  std::vector<std::uint16_t> bits(static_cast<std::size_t>(std::min(count, piece)));
  for (std::int64_t done = 0; done < count; done += piece) {
    const auto now = static_cast<std::size_t>(std::min(piece, count - done));
    file.read_at(begin + static_cast<std::uint64_t>(done) * 2, bits.data(), now * 2);
    std::transform(bits.begin(), bits.begin() + static_cast<std::ptrdiff_t>(now), out + done, convert);
  }
}

}  // namespace pipetrain
