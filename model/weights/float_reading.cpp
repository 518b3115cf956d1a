#include "model/weights/float_reading.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <vector>

#include "core/half.hpp"

namespace pipetrain {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers lie in files as in memory");

}  // namespace

void read_floats(const InputFile& file, SavedType type, std::uint64_t begin, std::int64_t count, float* out) {
  if (type == SavedType::fp32) return file.read_at(begin, out, static_cast<std::size_t>(count) * sizeof(float));
  constexpr std::int64_t piece = 1 << 16;
  std::vector<std::uint16_t> bits(static_cast<std::size_t>(std::min(count, piece)));
  for (std::int64_t done = 0; done < count; done += piece) {
    const auto now = static_cast<std::size_t>(std::min(piece, count - done));
    file.read_at(begin + static_cast<std::uint64_t>(done) * 2, bits.data(), now * 2);
    std::transform(bits.begin(), bits.begin() + static_cast<std::ptrdiff_t>(now), out + done,
                   [type](std::uint16_t value) { return type == SavedType::bf16 ? from_bf16(value) : from_f16(value); });
  }
}

}  // namespace pipetrain
