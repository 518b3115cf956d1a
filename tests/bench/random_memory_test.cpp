#include "bench/gpu/random_memory.hpp"

#include <bit>
#include <cmath>
#include <cstdint>

#include "catch.hpp"

namespace pipetrain::bench {
namespace {

TEST_CASE("measured memory holds numbers of both signs in the asked range, as bf16 and as f32") {
  const auto device = make_cpu_device(0, 1);
  const auto stream = device->make_stream("test");
  const Buffer memory = device->allocate(4096, "test");
  for (const float scale : {1.0F, 1.0F / 16}) {
    fill_with_random_numbers(*stream, memory, scale);
    int negative = 0, outside = 0;
    const auto look = [&](std::uint32_t bits) {
      const float value = std::bit_cast<float>(bits);
      negative += value < 0;
      outside += !(std::abs(value) >= scale / 8 && std::abs(value) < 2 * scale);
    };
    const auto* words = static_cast<const std::uint32_t*>(memory.data());
    for (std::size_t i = 0; i < memory.bytes() / 4; ++i) {
      look(words[i]);
      look(words[i] << 16);
      look(words[i] & 0xFFFF0000U);
    }
    CHECK(outside == 0);
    CHECK(negative > 1000);
    CHECK(negative < 2072);
  }
}

}  // namespace
}  // namespace pipetrain::bench
