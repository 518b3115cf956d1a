// Rounds rows to 8 bits where only the device knows how many of them hold values.
#include "ops/cuda/gemm/fp8_tile.cuh"
#include "ops/cuda/kernels.hpp"
#include "ops/cuda/launch.hpp"
#include "ops/cuda/used_rows.cuh"

namespace pipetrain::cuda {
namespace {

constexpr int numbers = 16;  // of a thread: it writes 16 bytes

struct QuantiseRowsTask {
  const bf16* x;
  unsigned char* rows;
  float* scale;
  const int* used;
  unsigned row_packs;
  std::int64_t packs;
};

template <__nv_fp8_interpretation_t type>
__global__ void quantise_rows_kernel(QuantiseRowsTask task) {
  wait_for_previous();
  const float scale = scale_of<type>(task.scale[1]);
  if (blockIdx.x == 0 && threadIdx.x == 0) task.scale[0] = 1 / scale;
  const std::int64_t pack = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (pack >= used_packs(task.used, task.row_packs, task.packs)) return;
  const Pack<bf16, 8> in[2] = {load<8>(task.x, 2 * pack), load<8>(task.x, 2 * pack + 1)};
  reinterpret_cast<uint4*>(task.rows)[pack] = {quantise4<type>(in[0].at, scale), quantise4<type>(in[0].at + 4, scale),
                                               quantise4<type>(in[1].at, scale), quantise4<type>(in[1].at + 4, scale)};
}

}  // namespace

void quantise_rows(cudaStream_t stream, const QuantiseArgs& args) {
  const Tensor& x = args.x;
  const Fp8Matrix& out = args.out;
  if (x.dtype != DType::bf16 || x.cols() % fp8_multiple != 0 || !aligned16(x.data) || out.cols.shape.rank() > 0)
    throw Error(ErrorKind::internal,
                "quantise_rows: not for rows of " + std::to_string(x.cols()) + " in " + to_string(x.dtype));
  const std::int64_t packs = x.elements() / numbers;
  if (packs == 0) return;
  const QuantiseRowsTask task{.x = data_of<bf16>(x),
                              .rows = data_of<unsigned char>(out.rows),
                              .scale = data_of<float>(out.scale),
                              .used = used_or_null(args.used),
                              .row_packs = static_cast<unsigned>(x.cols() / numbers),
                              .packs = packs};
  constexpr int threads = 256;
  const auto kernel = out.rows.dtype == DType::e4m3 ? quantise_rows_kernel<__NV_E4M3> : quantise_rows_kernel<__NV_E5M2>;
  launch(stream, kernel, blocks_for(packs, threads), threads, 0, task);
}

}  // namespace pipetrain::cuda
