#include "model/quantisation/quantise.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "core/error.hpp"
#include "core/half.hpp"
#include "model/quantisation/nf4.hpp"
#include "ops/float8.hpp"

namespace pipetrain {
namespace {

Shape outputs_first(const Parameter& parameter) {
  const Shape& full = parameter.full;
  return parameter.transposed ? Shape{full[1], full[0]} : full;
}

template <class T>
T* part_of(std::byte* out, std::size_t offset) {
  return reinterpret_cast<T*>(out + offset);
}

// Calls use(first, count, at) for each range of the logical matrix that lies in one run and one block; `at` is the number of
// its first element in the slice.
template <class Use>
void for_each_block(const SliceRuns& runs, const Use& use) {
  for (std::int64_t run = 0; run < runs.runs; ++run) {
    const std::int64_t begin = runs.first + run * runs.stride, end = begin + runs.length;
    for (std::int64_t first = begin; first < end;) {
      const std::int64_t last = std::min(end, (first / nf4_block + 1) * nf4_block);
      use(first, last - first, run * runs.length + first - begin);
      first = last;
    }
  }
}

// Puts codes [count] of 4 bits at element `at` of the slice; the memory was zero.
void put_codes(const std::uint8_t* codes, std::int64_t count, std::int64_t at, std::uint8_t* out) {
  for (std::int64_t i = 0; i < count; ++i) {
    const unsigned code = codes[i], shift = (at + i) % 2 == 0 ? 4 : 0;
    out[(at + i) / 2] = static_cast<std::uint8_t>(out[(at + i) / 2] | code << shift);
  }
}

void quantise_nf4(const QuantisedLayout& layout, std::span<const float> whole, std::byte* out) {
  const std::vector<float> scales = nf4_scales_of(whole);
  auto* const codes = part_of<std::uint8_t>(out, layout.codes);
  std::vector<std::int64_t> touched;  // the blocks, in the order of the slice's scales
  for_each_block(layout.runs, [&](std::int64_t first, std::int64_t count, std::int64_t at) {
    const std::int64_t block = first / nf4_block;
    std::array<std::uint8_t, nf4_block> found;
    nf4_codes_of(whole.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count)),
                 scales[static_cast<std::size_t>(block)], found.data());
    put_codes(found.data(), count, at, codes);
    touched.push_back(block);
  });
  auto* const tables = part_of<float>(out, layout.tables);
  std::copy(nf4_level_values.begin(), nf4_level_values.end(), tables);
  const auto put_scales = [&](const auto& all, auto* to) {
    for (std::size_t i = 0; i < touched.size(); ++i) to[i] = all[static_cast<std::size_t>(touched[i])];
  };
  if (layout.form == WeightForm::nf4_scales) return put_scales(scales, part_of<float>(out, layout.scales));
  const Nf4ScaleCodes coded = nf4_code_scales(scales);
  put_scales(coded.codes, part_of<std::uint8_t>(out, layout.scale_codes));
  std::copy(coded.scales.begin(), coded.scales.end(), part_of<float>(out, layout.scales));
  std::copy(nf4_scale_values().begin(), nf4_scale_values().end(), tables + nf4_levels);
  tables[nf4_levels + nf4_scale_map] = coded.mean;
}

// A block of zeros has the scale 1.
std::vector<float> fp8_scales_of(const QuantisedLayout& layout, std::span<const float> whole) {
  std::vector<float> scales(static_cast<std::size_t>(layout.fp8_blocks()));
  const std::int64_t columns = layout.full[1];
  for (std::int64_t row = 0; row < layout.full[0]; ++row) {
    float* const own = scales.data() + row / fp8_block * layout.fp8_columns();
    const float* const values = whole.data() + row * columns;
    for (std::int64_t col = 0; col < columns; ++col)
      own[col / fp8_block] = std::max(own[col / fp8_block], std::fabs(values[col]));
  }
  for (float& scale : scales) scale = scale == 0 ? 1 : scale / largest_e4m3;
  return scales;
}

void quantise_fp8(const QuantisedLayout& layout, std::span<const float> whole, std::byte* out) {
  const std::vector<float> scales = fp8_scales_of(layout, whole);
  auto* const codes = part_of<std::uint8_t>(out, layout.codes);
  const SliceRuns& runs = layout.runs;
  const std::int64_t columns = layout.full[1];
  for (std::int64_t at = 0; at < runs.elements(); ++at) {
    const std::int64_t place = runs.first + at / runs.length * runs.stride + at % runs.length;
    const std::int64_t block = place / columns / fp8_block * layout.fp8_columns() + place % columns / fp8_block;
    // The quotient of the largest number may exceed the type's largest by rounding, and rounds to it.
    codes[at] = to_e4m3(whole[static_cast<std::size_t>(place)] / scales[static_cast<std::size_t>(block)]);
  }
  std::copy(scales.begin(), scales.end(), part_of<float>(out, layout.scales));
}

void round_to_bf16(const QuantisedLayout& layout, std::span<const float> whole, std::byte* out) {
  auto* const codes = part_of<std::uint16_t>(out, layout.codes);
  for (std::int64_t run = 0; run < layout.runs.runs; ++run) {
    const float* const from = whole.data() + layout.runs.first + run * layout.runs.stride;
    std::transform(from, from + layout.runs.length, codes + run * layout.runs.length, to_bf16);
  }
}

}  // namespace

SliceRuns runs_of(const Parameter& parameter) {
  const std::int64_t columns = outputs_first(parameter)[1], elements = parameter.local.elements();
  if (parameter.split_axis < 0) return {0, 1, elements, elements};
  const bool by_rows = parameter.split_axis == (parameter.transposed ? 1 : 0);
  if (by_rows) return {parameter.begin * columns, 1, elements, elements};
  return {parameter.begin, parameter.local[0], parameter.local[1], columns};
}

QuantisedLayout quantised_layout_of(const Parameter& parameter, WeightForm form) {
  const SliceRuns runs = runs_of(parameter);
  if (is_nf4(form) && runs.runs > 1) {
    for (const std::int64_t count : {runs.first, runs.length, runs.stride}) {
      if (count % nf4_block == 0) continue;
      throw Error(
          ErrorKind::input, {"base-precision", "nf4"},
          fmt::format("the ranks of tp divide {} of {} inputs into parts of {}, but {} inputs of nf4 share a scale; use "
                      "a smaller tp, or fp8",
                      parameter.name, runs.stride, runs.length, nf4_block));
    }
  }
  return quantised_layout(form, outputs_first(parameter), runs);
}

Parameter whole_matrix(const Parameter& slice) {
  Parameter whole = slice;
  whole.local = outputs_first(slice);
  whole.split_axis = -1;
  whole.begin = 0;
  return whole;
}

void quantise(const QuantisedLayout& layout, std::span<const float> whole, std::byte* out) {
  std::memset(out, 0, layout.bytes);
  if (is_nf4(layout.form)) return quantise_nf4(layout, whole, out);
  if (layout.form == WeightForm::fp8) return quantise_fp8(layout, whole, out);
  round_to_bf16(layout, whole, out);
}

}  // namespace pipetrain
