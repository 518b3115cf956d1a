// Frozen matrices in fewer bits than the operations' type, and the layout of their memory. Ops::dequantise turns one into the
// type that products read.
//
// nf4: Dettmers et al. 2023, "QLoRA", in the form of bitsandbytes. The logical matrix is flattened by rows into blocks of 64
// elements. A code of 4 bits chooses one of 16 levels in [-1, 1], and the block's scale, which is its largest magnitude,
// multiplies the level. Double quantisation keeps the scales less their mean in 8 bits, by blocks of 256 scales: a code
// chooses one of 256 values, the largest magnitude of the 256 differences multiplies it, and the mean is added.
//
// fp8: e4m3 with one scale for each 128 x 128 block of the logical matrix, as in DeepSeek-AI 2024, "DeepSeek-V3 Technical
// Report".
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/buffer.hpp"
#include "core/tensor.hpp"
#include "ops/fp8_matrix.hpp"
#include "ops/weight_form.hpp"

namespace pipetrain {

constexpr std::int64_t nf4_block = 64;         // elements that share a scale
constexpr std::int64_t nf4_scale_group = 256;  // scales that share a scale of their own
constexpr std::int64_t nf4_levels = 16;        // values of an element's code
constexpr std::int64_t nf4_scale_map = 256;    // values of a scale's code

// The place of a rank's slice in the logical matrix, flattened by rows: `runs` ranges of `length` elements, of which each
// begins `stride` elements after the one before it. A slice of whole rows is one run.
struct SliceRuns {
  std::int64_t first = 0;  // the first element of the first run
  std::int64_t runs = 1, length = 0, stride = 0;
  std::int64_t elements() const { return runs * length; }
};

// The parts of a slice's memory, as byte offsets that are multiples of tensor_alignment.
struct QuantisedLayout {
  WeightForm form = WeightForm::plain;
  Shape full;      // [rows, columns] of the logical matrix
  SliceRuns runs;  // its elements are stored in the order of the runs

  // fp8 and bf16: one for each element. nf4: two elements a byte, the first in the high half.
  std::size_t codes = 0;
  // nf4: a byte for each block that a run touches, by run. A block of which the slice has a part is in it too.
  std::size_t scale_codes = 0;
  // f32. fp8: of all blocks of the logical matrix, [row blocks, column blocks]. nf4: of all groups of 256 scales of the logical
  // matrix. nf4_scales: of each block that a run touches, by run.
  std::size_t scales = 0;
  // nf4, f32: 16 levels, 256 values of a scale's code, and the mean of the scales. nf4_scales: the levels alone.
  std::size_t tables = 0;
  std::size_t bytes = 0;

  // nf4: the blocks that one run touches. Only the first run may begin inside of a block, if there are several.
  std::int64_t blocks_of_run() const { return (runs.first % nf4_block + runs.length + nf4_block - 1) / nf4_block; }
  std::int64_t blocks() const { return (full.elements() + nf4_block - 1) / nf4_block; }  // nf4: of the logical matrix
  std::int64_t scale_groups() const { return (blocks() + nf4_scale_group - 1) / nf4_scale_group; }
  std::int64_t fp8_columns() const { return (full[1] + fp8_block - 1) / fp8_block; }  // fp8: blocks side by side
  std::int64_t fp8_blocks() const { return (full[0] + fp8_block - 1) / fp8_block * fp8_columns(); }
};

// Places the parts of a slice. form: not plain. With several runs of nf4, first, length and stride must be multiples of
// nf4_block.
inline QuantisedLayout quantised_layout(WeightForm form, const Shape& full, const SliceRuns& runs) {
  QuantisedLayout layout{form, full, runs};
  const auto place = [&](std::size_t& offset, std::int64_t count, std::size_t size) {
    offset = layout.bytes;
    layout.bytes = align_up(layout.bytes + static_cast<std::size_t>(count) * size);
  };
  const std::int64_t elements = runs.elements(), touched = runs.runs * layout.blocks_of_run();
  if (form == WeightForm::bf16) {
    place(layout.codes, elements, size_of(DType::bf16));
  } else if (form == WeightForm::fp8) {
    place(layout.codes, elements, 1);
    place(layout.scales, layout.fp8_blocks(), sizeof(float));
  } else if (form == WeightForm::nf4) {
    place(layout.codes, (elements + 1) / 2, 1);
    place(layout.scale_codes, touched, 1);
    place(layout.scales, layout.scale_groups(), sizeof(float));
    place(layout.tables, nf4_levels + nf4_scale_map + 1, sizeof(float));
  } else if (form == WeightForm::nf4_scales) {
    place(layout.codes, (elements + 1) / 2, 1);
    place(layout.scales, touched, sizeof(float));
    place(layout.tables, nf4_levels, sizeof(float));
  }
  return layout;
}

// A slice in memory of its layout's size.
struct QuantisedMatrix {
  QuantisedLayout layout;
  std::byte* data = nullptr;

  const std::uint8_t* codes() const { return reinterpret_cast<const std::uint8_t*>(data + layout.codes); }
  const std::uint8_t* scale_codes() const { return reinterpret_cast<const std::uint8_t*>(data + layout.scale_codes); }
  const float* scales() const { return reinterpret_cast<const float*>(data + layout.scales); }
  const float* tables() const { return reinterpret_cast<const float*>(data + layout.tables); }
};

// out = elements [begin, end) of a slice in host memory, as Ops::dequantise gives them in f32. The layout must have bytes.
void read_values(const QuantisedMatrix& matrix, std::int64_t begin, std::int64_t end, float* out);

}  // namespace pipetrain
