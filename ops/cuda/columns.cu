#include <algorithm>
#include <span>

#include "ops/cuda/kernels.hpp"
#include "ops/cuda/launch.hpp"
#include "ops/cuda/vector.cuh"

namespace pipetrain::cuda {
namespace {

// A range of columns of a matrix, counted in packs.
template <class T>
struct Columns {
  T* first;
  std::int64_t row_packs;  // the packs in all its columns
};

// One thread handles a pack of a row's columns.
template <class S, class T, int W>
__global__ void copy_columns_kernel(Columns<const S> from, Columns<T> to, std::int64_t packs_of_row, std::int64_t packs) {
  wait_for_previous();
  const std::int64_t pack = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (pack >= packs) return;
  const std::int64_t row = pack / packs_of_row, at = pack % packs_of_row;
  const auto in = load<W>(from.first, row * from.row_packs + at);
  if constexpr (std::is_same_v<S, T>) {
    reinterpret_cast<Pack<T, W>*>(to.first)[row * to.row_packs + at] = in;
  } else {
    float values[W];
#pragma unroll
    for (int i = 0; i < W; ++i) values[i] = in[i];
    store(to.first, row * to.row_packs + at, values);
  }
}

template <class S, class T>
void copy(cudaStream_t stream, const CopyColumnsArgs& args) {
  const std::int64_t source_cols = args.source.cols(), target_cols = args.target.cols();
  const S* const from = data_of<S>(args.source) + args.source_begin;
  T* const to = data_of<T>(args.target) + args.target_begin;
  constexpr std::int64_t width = full_width<T>;
  const bool wide =
      aligned16(from) && aligned16(to) && source_cols % width == 0 && target_cols % width == 0 && args.count % width == 0;
  with_width<T>(wide, [&](auto w) {
    constexpr int W = decltype(w)::value;
    const std::int64_t packs = args.source.rows() * (args.count / W);
    launch(stream, copy_columns_kernel<S, T, W>, blocks_for(packs, 256), 256, 0, Columns<const S>{from, source_cols / W},
           Columns<T>{to, target_cols / W}, args.count / W, packs);
  });
}

// The blocks of a matrix, for a kernel.
template <class T>
struct Blocks {
  struct {
    T* values;
    std::int64_t row, column, rows, cols;
  } of[most_matrix_blocks];
  int count;
};

template <class T>
Blocks<T> blocks_of(std::span<const MatrixBlock> all) {
  if (all.size() > most_matrix_blocks) throw Error(ErrorKind::internal, "a matrix has too many blocks");
  Blocks<T> blocks{};
  for (const MatrixBlock& one : all)
    blocks.of[blocks.count++] = {data_of<T>(one.values), one.row, one.column, one.values.rows(), one.values.cols()};
  return blocks;
}

// One thread writes an element.
template <class T>
__global__ void join_blocks_kernel(Blocks<const T> blocks, T* out, std::int64_t cols, std::int64_t elements) {
  wait_for_previous();
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= elements) return;
  const std::int64_t row = at / cols, column = at - row * cols;
  T value = from_float<T>(0.0F);
  for (int i = 0; i < blocks.count; ++i) {
    const auto& block = blocks.of[i];
    const std::int64_t r = row - block.row, c = column - block.column;
    if (r >= 0 && r < block.rows && c >= 0 && c < block.cols) value = block.values[r * block.cols + c];
  }
  out[at] = value;
}

// The numbers that multiply a matrix's columns; of: null where they are 1.
template <class T>
struct ColumnFactors {
  const T* of;
  float offset;
};

// One thread adds an element of the block that blockIdx.y names.
template <class T>
__global__ void add_blocks_kernel(const float* source, std::int64_t source_cols, Blocks<float> blocks, bool accumulates,
                                  ColumnFactors<T> factors) {
  wait_for_previous();
  const auto& block = blocks.of[blockIdx.y];
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= block.rows * block.cols) return;
  const std::int64_t row = at / block.cols, column = block.column + at - row * block.cols;
  float value = source[(block.row + row) * source_cols + column];
  if (factors.of != nullptr) value *= to_float(factors.of[column]) + factors.offset;
  block.values[at] = accumulates ? block.values[at] + value : value;
}

}  // namespace

void join_blocks(cudaStream_t stream, const JoinBlocksArgs& args) {
  const std::int64_t elements = args.out.elements();
  if (elements == 0) return;
  with_type(args.out.dtype, "join_blocks", [&](auto t) {
    using T = typename decltype(t)::type;
    launch(stream, join_blocks_kernel<T>, blocks_for(elements, 256), 256, 0, blocks_of<const T>(args.blocks),
           data_of<T>(args.out), args.out.cols(), elements);
  });
}

void add_blocks(cudaStream_t stream, const AddBlocksArgs& args) {
  std::int64_t most = 0;
  for (const MatrixBlock& block : args.blocks) most = std::max(most, block.values.elements());
  if (most == 0) return;
  const dim3 grid(blocks_for(most, 256), static_cast<unsigned>(args.blocks.size()));
  with_type(args.factors ? args.factors->dtype : DType::f32, "add_blocks", [&](auto t) {
    using T = typename decltype(t)::type;
    launch(stream, add_blocks_kernel<T>, grid, 256, 0, data_of<float>(args.source), args.source.cols(),
           blocks_of<float>(args.blocks), args.accumulate == Accumulate::yes,
           ColumnFactors<T>{data_or_null<T>(args.factors), args.offset});
  });
}

void copy_columns(cudaStream_t stream, const CopyColumnsArgs& args) {
  if (args.source.rows() == 0 || args.count == 0) return;
  with_type(args.target.dtype, "copy_columns", [&](auto t) {
    using T = typename decltype(t)::type;
    if (args.source.dtype == DType::f32) return copy<float, T>(stream, args);
    if (args.source.dtype == args.target.dtype) return copy<T, T>(stream, args);
    if constexpr (std::is_same_v<T, float>) {
      if (args.source.dtype == DType::bf16) return copy<__nv_bfloat16, T>(stream, args);
      if (args.source.dtype == DType::f16) return copy<__half, T>(stream, args);
    }
    throw Error(ErrorKind::internal, std::string("copy_columns: not from ") + to_string(args.source.dtype));
  });
}

}  // namespace pipetrain::cuda
