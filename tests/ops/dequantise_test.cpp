// Matrices in fewer bits, of random codes and tables, dequantised on every backend: each value is the same product on all.
#include <cstring>
#include <random>

#include "catch.hpp"
#include "core/half.hpp"
#include "ops/float8.hpp"
#include "ops/ops_bench.hpp"

namespace pipetrain::testing {
namespace {

struct SliceCase {
  const char* what;
  Shape full;
  SliceRuns runs;
};
const std::vector<SliceCase> slice_cases{
    {"a whole matrix", {96, 192}, {0, 1, 96 * 192, 96 * 192}},
    {"a matrix of several groups of scales", {300, 128}, {0, 1, 300 * 128, 300 * 128}},
    {"rows that begin inside of a block", {12, 40}, {3 * 40, 1, 5 * 40, 5 * 40}},
    {"an odd number of elements", {3, 7}, {7, 1, 7, 7}},
    {"columns", {300, 256}, {64, 300, 128, 256}},
};

std::vector<std::byte> random_quantised(const QuantisedLayout& layout, std::mt19937_64& random) {
  std::vector<std::byte> bytes(layout.bytes);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  const auto put_floats = [&](std::size_t begin, std::size_t end) {
    for (std::size_t at = begin; at + sizeof(float) <= end; at += sizeof(float)) {
      const float value = std::uniform_real_distribution<float>(-1, 1)(random);
      std::memcpy(bytes.data() + at, &value, sizeof value);
    }
  };
  if (layout.form == WeightForm::fp8) put_floats(layout.scales, layout.bytes);
  if (is_nf4(layout.form)) put_floats(layout.scales, layout.bytes);
  if (layout.form == WeightForm::bf16)  // no NaN, whose bits differ from device to device
    for (std::size_t at = 1; at < bytes.size(); at += 2) bytes[at] &= std::byte{0xbf};
  if (layout.form == WeightForm::fp8)
    for (std::size_t at = 0; at < layout.scales; ++at)
      if ((bytes[at] & std::byte{0x7f}) == std::byte{0x7f}) bytes[at] = std::byte{0};
  return bytes;
}

// Element `at` of the slice, by the description in ops/quantised_matrix.hpp.
float dequantised_value(const QuantisedMatrix& matrix, std::int64_t at) {
  const QuantisedLayout& layout = matrix.layout;
  const SliceRuns& runs = layout.runs;
  const std::int64_t run = at / runs.length, place = runs.first + run * runs.stride + at % runs.length;
  if (layout.form == WeightForm::bf16) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, matrix.codes() + 2 * at, sizeof bits);
    return from_bf16(bits);
  }
  if (layout.form == WeightForm::fp8) {
    const std::int64_t row = place / layout.full[1], col = place % layout.full[1];
    return from_e4m3(matrix.codes()[at]) * matrix.scales()[row / 128 * ((layout.full[1] + 127) / 128) + col / 128];
  }
  const unsigned pair = matrix.codes()[at / 2], code = at % 2 == 0 ? pair / 16 : pair % 16;
  const std::int64_t begin = runs.first + run * runs.stride, touched = run * layout.blocks_of_run() + place / 64 - begin / 64;
  if (layout.form == WeightForm::nf4_scales) return matrix.tables()[code] * matrix.scales()[touched];
  volatile float scale = matrix.tables()[16 + matrix.scale_codes()[touched]] * matrix.scales()[place / 64 / 256];
  scale = scale + matrix.tables()[16 + 256];
  return matrix.tables()[code] * scale;
}

}  // namespace

TEST_CASE("every form of frozen matrices is dequantised to the same bits on all devices", "[ops]") {
  on_every_backend([](Bench& b) {
    for (const SliceCase& one : slice_cases) {
      for (const WeightForm form : {WeightForm::bf16, WeightForm::fp8, WeightForm::nf4, WeightForm::nf4_scales}) {
        INFO(one.what << ", form " << static_cast<int>(form));
        const QuantisedLayout layout = quantised_layout(form, one.full, one.runs);
        std::vector<std::byte> bytes = random_quantised(layout, b.random);
        const QuantisedMatrix on_host{layout, bytes.data()};
        Values expected({one.runs.elements()});
        for (std::int64_t i = 0; i < one.runs.elements(); ++i)
          expected.data[static_cast<std::size_t>(i)] = rounded(static_cast<double>(dequantised_value(on_host, i)), b.dtype);
        const Tensor memory = b.rank.poisoned({static_cast<std::int64_t>(bytes.size())}, DType::e4m3);
        const Tensor out = b.poisoned({one.runs.elements()});
        b.rank.stream().copy(memory.data, bytes.data(), bytes.size());
        b.rank.stream().synchronize();
        b.team.run([&](TestRank& r) {
          r.ops().dequantise({.matrix = {layout, static_cast<std::byte*>(memory.data)}, .out = out});
        });
        CHECK((b.rank.get(out).data == expected.data));
        std::vector<float> values(static_cast<std::size_t>(one.runs.elements()));
        read_values(on_host, 0, one.runs.elements(), values.data());
        for (std::size_t i = 0; i < values.size(); i += 5)
          CHECK((values[i] == dequantised_value(on_host, static_cast<std::int64_t>(i))));
      }
    }
  });
}

}  // namespace pipetrain::testing
