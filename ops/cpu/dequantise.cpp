#include <algorithm>

#include "ops/cpu/kernels.hpp"
#include "ops/cpu/rows.hpp"
#include "ops/cpu/tiles.hpp"
#include "ops/float8.hpp"

namespace pipetrain::cpu {
namespace {

// A range of a slice's elements that share a scale.
struct ScaledRange {
  std::int64_t at = 0, count = 0;  // elements of the slice
  float scale = 1;
};

// Calls use(range) for all elements [begin, end) of the slice, in order.
template <class Use>
void for_nf4_ranges(const QuantisedMatrix& matrix, std::int64_t begin, std::int64_t end, const Use& use) {
  const QuantisedLayout& layout = matrix.layout;
  const SliceRuns& runs = layout.runs;
  const std::int64_t inside = runs.first % nf4_block;
  for (std::int64_t at = begin; at < end;) {
    const std::int64_t run = at / runs.length, place = inside + at % runs.length, block = place / nf4_block;
    const std::int64_t last = std::min({end, (run + 1) * runs.length, at + nf4_block - place % nf4_block});
    const std::int64_t touched = run * layout.blocks_of_run() + block;
    float scale = 0;
    if (layout.form == WeightForm::nf4) {
      const std::int64_t group = ((runs.first + run * runs.stride) / nf4_block + block) / nf4_scale_group;
      const float* const map = matrix.tables() + nf4_levels;
      // The product is rounded before the sum: the file is compiled without fused operations.
      scale = map[matrix.scale_codes()[touched]] * matrix.scales()[group] + map[nf4_scale_map];
    } else {
      scale = matrix.scales()[touched];
    }
    use(ScaledRange{at, last - at, scale});
    at = last;
  }
}

template <class Use>
void for_fp8_ranges(const QuantisedMatrix& matrix, std::int64_t begin, std::int64_t end, const Use& use) {
  const QuantisedLayout& layout = matrix.layout;
  const SliceRuns& runs = layout.runs;
  for (std::int64_t at = begin; at < end;) {
    const std::int64_t run = at / runs.length, place = runs.first + run * runs.stride + at % runs.length;
    const std::int64_t row = place / layout.full[1], col = place % layout.full[1];
    const std::int64_t to_block_end = std::min(fp8_block - col % fp8_block, layout.full[1] - col);
    const std::int64_t last = std::min({end, (run + 1) * runs.length, at + to_block_end});
    use(ScaledRange{at, last - at, matrix.scales()[row / fp8_block * layout.fp8_columns() + col / fp8_block]});
    at = last;
  }
}

void write_nf4(const QuantisedMatrix& matrix, const ScaledRange& range, float* out) {
  const std::uint8_t* const codes = matrix.codes();
  const float* const levels = matrix.tables();
  for (std::int64_t i = 0; i < range.count; ++i) {
    const std::int64_t at = range.at + i;
    const unsigned pair = codes[at / 2];
    out[i] = levels[at % 2 == 0 ? pair >> 4 : pair & 0xfU] * range.scale;
  }
}

void write_fp8(const QuantisedMatrix& matrix, const ScaledRange& range, float* out) {
  const std::uint8_t* const codes = matrix.codes() + range.at;
  for (std::int64_t i = 0; i < range.count; ++i) out[i] = from_e4m3(codes[i]) * range.scale;
}

}  // namespace

void dequantise(CpuStream& stream, const DequantiseArgs& args) {
  for_elements(stream, args.out.elements(), [&](std::int64_t begin, std::int64_t end) {
    constexpr std::int64_t piece = 1024;
    float values[piece];
    for (std::int64_t first = begin; first < end; first += piece) {
      const std::int64_t last = std::min(first + piece, end);
      read_values(args.matrix, first, last, values);
      narrow(args.out.dtype, values, last - first, element_at(args.out, first));
    }
  });
}

}  // namespace pipetrain::cpu

namespace pipetrain {

void read_values(const QuantisedMatrix& matrix, std::int64_t begin, std::int64_t end, float* out) {
  switch (matrix.layout.form) {
    case WeightForm::nf4:
    case WeightForm::nf4_scales:
      return cpu::for_nf4_ranges(
          matrix, begin, end, [&](const cpu::ScaledRange& range) { cpu::write_nf4(matrix, range, out + (range.at - begin)); });
    case WeightForm::fp8:
      return cpu::for_fp8_ranges(
          matrix, begin, end, [&](const cpu::ScaledRange& range) { cpu::write_fp8(matrix, range, out + (range.at - begin)); });
    case WeightForm::bf16:
      return cpu::widen(DType::bf16, matrix.codes() + static_cast<std::size_t>(begin) * size_of(DType::bf16), end - begin, out);
    case WeightForm::plain:
      assert(false);
  }
}

}  // namespace pipetrain
