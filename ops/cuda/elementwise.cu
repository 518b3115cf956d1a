#include "ops/cuda/kernels.hpp"
#include "ops/cuda/launch.hpp"
#include "ops/cuda/square_sum.cuh"
#include "ops/cuda/vector.cuh"

namespace pipetrain::cuda {
namespace {

template <class T, int W>
__global__ void add_kernel(T* target, const T* source, std::int64_t packs) {
  wait_for_previous();
  const std::int64_t pack = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (pack >= packs) return;
  auto sum = reinterpret_cast<Pack<T, W>*>(target)[pack];
  const auto other = reinterpret_cast<const Pack<T, W>*>(source)[pack];
#pragma unroll
  for (int i = 0; i < W; ++i) sum.at[i] += other.at[i];
  reinterpret_cast<Pack<T, W>*>(target)[pack] = sum;
}

template <class T, int W>
__global__ void scale_kernel(const T* x, const T* residual, T* out, float factor, bool exact, std::int64_t packs) {
  wait_for_previous();
  const std::int64_t pack = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (pack >= packs) return;
  const Real<T> by = exact ? factor : to_float(from_float<T>(factor));
  const auto in = load<W>(x, pack);
  Real<T> values[W];
#pragma unroll
  for (int i = 0; i < W; ++i) values[i] = in[i] * by;
  if (residual != nullptr) {
    const auto more = load<W>(residual, pack);
#pragma unroll
    for (int i = 0; i < W; ++i) values[i] += more[i];
  }
  store(out, pack, values);
}

template <class TI, class T, int W>
__global__ void add_residual_kernel(const TI* sum, const T* residual, T* out, std::int64_t packs) {
  wait_for_previous();
  const std::int64_t pack = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (pack >= packs) return;
  const auto in = load<W>(sum, pack);
  float values[W];
#pragma unroll
  for (int i = 0; i < W; ++i) values[i] = in[i];
  if (residual != nullptr) {
    const auto more = load<W>(residual, pack);
#pragma unroll
    for (int i = 0; i < W; ++i) values[i] += more[i];
  }
  store(out, pack, values);
}

template <class T, int W>
__global__ void add_ranks_kernel(const T* received, int ranks, int own_rank, const T* own, const T* residual, T* out,
                                 std::int64_t packs) {
  wait_for_previous();
  const std::int64_t pack = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (pack >= packs) return;
  const auto of_rank = [&](int rank) { return rank == own_rank ? load<W>(own, pack) : load<W>(received, rank * packs + pack); };
  Real<T> sum[W];
  const auto first = of_rank(0);
#pragma unroll
  for (int i = 0; i < W; ++i) sum[i] = first[i];
#pragma unroll 4
  for (int rank = 1; rank < ranks; ++rank) {
    const auto more = of_rank(rank);
#pragma unroll
    for (int i = 0; i < W; ++i) sum[i] += more[i];
  }
  if (residual != nullptr) {
    const auto more = load<W>(residual, pack);
#pragma unroll
    for (int i = 0; i < W; ++i) sum[i] += more[i];
  }
  store(out, pack, sum);
}

// Each block sums one norm block; the last block to finish adds all sums in order, unless `sum` is null.
__global__ void __launch_bounds__(square_threads)
    square_sum_kernel(const float* data, std::int64_t count, bool wide, double* partial, unsigned* counter, double* sum) {
  cudaTriggerProgrammaticLaunchCompletion();  // as in AdamW's kernel
  wait_for_previous();
  __shared__ double shared[square_threads];
  __shared__ bool last;
  const double own =
      square_sum_of_block(data, static_cast<std::int64_t>(blockIdx.x) * square_block_elements, count, wide, shared);
  if (threadIdx.x == 0) {
    partial[blockIdx.x] = own;
    __threadfence();
    last = sum != nullptr && atomicAdd(counter, 1U) == gridDim.x - 1;
  }
  __syncthreads();
  if (!last) return;
  __threadfence();
  const double total = add_block_sums(partial, gridDim.x, shared);
  if (threadIdx.x == 0) *sum = total, *counter = 0;
}

}  // namespace

void add(cudaStream_t stream, const Tensor& target, const Tensor& source) {
  const std::int64_t count = target.elements();
  const bool aligned = aligned16(target.data) && aligned16(source.data);
  const auto run = [&](auto t, auto w, std::int64_t from, std::int64_t elements) {
    using T = typename decltype(t)::type;
    constexpr int W = decltype(w)::value;
    if (elements == 0) return;
    launch(stream, add_kernel<T, W>, blocks_for(elements / W, 256), 256, 0, data_of<T>(target) + from,
           data_of<T>(source) + from, elements / W);
  };
  if (target.dtype == DType::f64) return run(Type<double>{}, Constant<1>{}, 0, count);
  if (target.dtype == DType::i32) return run(Type<int>{}, Constant<1>{}, 0, count);
  if (target.dtype != DType::f32) throw Error(ErrorKind::internal, std::string("add: not for ") + to_string(target.dtype));
  const std::int64_t wide = aligned ? count / 4 * 4 : 0;
  run(Type<float>{}, Constant<4>{}, 0, wide);
  run(Type<float>{}, Constant<1>{}, wide, count - wide);
}

void scale(cudaStream_t stream, const ScaleArgs& args) {
  const std::int64_t count = args.x.elements();
  if (count == 0) return;
  with_type(args.x.dtype, "scale", [&](auto t) {
    using T = typename decltype(t)::type;
    const bool aligned =
        aligned16(args.x.data) && aligned16(args.out.data) && (!args.residual || aligned16(args.residual->data));
    with_width<T>(aligned && count % full_width<T> == 0, [&](auto w) {
      constexpr int W = decltype(w)::value;
      launch(stream, scale_kernel<T, W>, blocks_for(count / W, 256), 256, 0, data_of<T>(args.x), data_or_null<T>(args.residual),
             data_of<T>(args.out), args.factor, args.exact, count / W);
    });
  });
}

void add_residual(cudaStream_t stream, const Tensor& sum, const std::optional<Tensor>& residual, const Tensor& out) {
  const std::int64_t count = out.elements();
  if (count == 0) return;
  const bool aligned = aligned16(sum.data) && aligned16(out.data) && (!residual || aligned16(residual->data));
  with_types(sum.dtype, out.dtype, "add_residual", [&](auto ti, auto t) {
    using TI = typename decltype(ti)::type;
    using T = typename decltype(t)::type;
    with_width<T>(aligned && count % full_width<T> == 0, [&](auto w) {
      constexpr int W = decltype(w)::value;
      launch(stream, add_residual_kernel<TI, T, W>, blocks_for(count / W, 256), 256, 0, data_of<TI>(sum),
             data_or_null<T>(residual), data_of<T>(out), count / W);
    });
  });
}

void add_ranks(cudaStream_t stream, const AddRanksArgs& args) {
  const std::int64_t count = args.out.elements();
  if (count == 0) return;
  const bool aligned = aligned16(args.received.data) && aligned16(args.own.data) && aligned16(args.out.data) &&
                       (!args.residual || aligned16(args.residual->data));
  with_type(args.out.dtype, "add_ranks", [&](auto t) {
    using T = typename decltype(t)::type;
    with_width<T>(aligned && count % full_width<T> == 0, [&](auto w) {
      constexpr int W = decltype(w)::value;
      launch(stream, add_ranks_kernel<T, W>, blocks_for(count / W, 256), 256, 0, data_of<T>(args.received),
             static_cast<int>(args.received.rows()), args.rank, data_of<T>(args.own), data_or_null<T>(args.residual),
             data_of<T>(args.out), count / W);
    });
  });
}

std::size_t square_sum_scratch(std::int64_t elements) {
  return static_cast<std::size_t>(ceil_div<std::int64_t>(elements, square_block_elements)) * sizeof(double);
}

namespace {

void launch_square_sum(cudaStream_t stream, const Tensor& tensor, double* partial, unsigned* counter, double* sum) {
  launch(stream, square_sum_kernel, blocks_for(tensor.elements(), square_block_elements), square_threads, 0,
         data_of<float>(tensor), tensor.elements(), aligned16(tensor.data), partial, counter, sum);
}

}  // namespace

void square_sums(cudaStream_t stream, const Tensor& tensor, const Tensor& sums) {
  if (tensor.elements() > 0) launch_square_sum(stream, tensor, data_of<double>(sums), nullptr, nullptr);
}

void square_sum(cudaStream_t stream, const Tensor& tensor, const Tensor& sum, void* scratch, unsigned* counter) {
  auto* out = data_of<double>(sum);
  if (tensor.elements() == 0) {
    cudaMemsetAsync(out, 0, sizeof(double), stream);
    return;
  }
  launch_square_sum(stream, tensor, static_cast<double*>(scratch), counter, out);
}

}  // namespace pipetrain::cuda
