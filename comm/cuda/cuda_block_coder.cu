#include "comm/cuda/cuda_block_coder.hpp"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <string>

#include "comm/cuda/peer_kernels.cuh"
#include "core/cuda/cuda_stream.hpp"
#include "core/error.hpp"

namespace pipetrain {
namespace {

// A warp codes a block of numbers: lane l has the elements l, l + 32, and so on. Products and sums are rounded one by one, as
// the CPU's are, so that the error is the difference to exactly the number that all receivers decode.
constexpr int warp = 32, warps = 8;
constexpr unsigned all_lanes = 0xffffffffU, sign_bit = 0x80000000U, infinity_bits = 0x7f800000U, nan_bits = 0x7fc00000U;
constexpr float largest_int8 = 127, least_magnitude = 127 / FLT_MAX * 2;  // see block_codes.cpp

__device__ float scale_at(const BlockScales& scales, std::int64_t i) {
  return __fadd_rn(__fsqrt_rn(__fmul_rn(scales.squares[i], scales.unbias)), scales.eps);
}

// The numbers of a run, with errors that are fed back.
struct FedBack {
  BlockRun run;

  __device__ float read(std::int64_t i) const {
    float number = run.values[i];
    if (run.averages != nullptr) number = __fadd_rn(__fmul_rn(run.fresh, number), __fmul_rn(run.kept, run.averages[i]));
    if (run.scales.squares != nullptr) number = __fdiv_rn(number, scale_at(run.scales, i));
    return __fadd_rn(number, run.error[i]);
  }
  __device__ void keep(std::int64_t i, float error) const { run.error[i] = error; }
  __device__ void write(std::int64_t i, float number) const {
    run.values[i] = run.scales.squares == nullptr ? number : __fmul_rn(number, scale_at(run.scales, i));
  }
};

// The numbers of a tensor, of which nothing is kept.
template <class T>
struct Plain {
  T* values;

  __device__ float read(std::int64_t i) const { return peer::convert<float>(values[i]); }
  __device__ void keep(std::int64_t, float) const {}
  __device__ void write(std::int64_t i, float number) const { values[i] = peer::convert<T>(number); }
};

// Both return the same in all lanes: the exchanged pairs are symmetric.
__device__ int largest_of(int value) {
  for (int distance = warp / 2; distance > 0; distance /= 2) value = max(value, __shfl_xor_sync(all_lanes, value, distance));
  return value;
}
__device__ float sum_of(float value) {
  for (int distance = warp / 2; distance > 0; distance /= 2)
    value = __fadd_rn(value, __shfl_xor_sync(all_lanes, value, distance));
  return value;
}

template <BlockCode code>
struct Lane {
  static constexpr BlockFormat format = block_format(code);
  static constexpr int count = static_cast<int>(format.elements) / warp;  // elements of a lane
};

// Writes a block that decodes to NaN.
template <BlockCode code>
__device__ void write_not_finite(std::uint32_t* words, int lane) {
  constexpr int last = static_cast<int>(Lane<code>::format.words) - 1;
  for (int word = lane; word <= last; word += warp) words[word] = word == last ? nan_bits : 0;
}

// Both write the codes of the lane's sums, and the numbers that receivers decode. Returns the scale.
__device__ float encode_int8(const float* sums, float magnitude, std::uint32_t* words, float* decoded, int lane) {
  constexpr float shift = 12582912;  // 1.5 x 2^23: see block_codes.cpp
  const bool is_zero = magnitude < least_magnitude;
  const float inverse = is_zero ? 0 : __fdiv_rn(largest_int8, magnitude);
  const float scale = is_zero ? 0 : __fdiv_rn(magnitude, largest_int8);
  auto* const codes = reinterpret_cast<std::int8_t*>(words);
#pragma unroll
  for (int k = 0; k < Lane<BlockCode::int8>::count; ++k) {
    const float shifted = __fadd_rn(__fmul_rn(sums[k], inverse), shift);
    codes[k * warp + lane] = static_cast<std::int8_t>(__float_as_int(shifted));
    decoded[k] = __fmul_rn(__fsub_rn(shifted, shift), scale);
  }
  return scale;
}

__device__ void encode_signs(const float* sums, float scale, std::uint32_t* words, float* decoded, int lane) {
#pragma unroll
  for (int k = 0; k < Lane<BlockCode::sign>::count; ++k) {
    const bool negative = (__float_as_uint(sums[k]) & sign_bit) != 0;
    const unsigned bits = __ballot_sync(all_lanes, negative);
    if (lane == 0) words[k] = bits;
    decoded[k] = negative ? -scale : scale;
  }
}

template <BlockCode code, class Numbers>
__global__ void __launch_bounds__(warp* warps)
    encode_kernel(Numbers numbers, std::int64_t elements, std::int64_t blocks, std::uint32_t* words) {
  constexpr BlockFormat format = Lane<code>::format;
  constexpr int count = Lane<code>::count;
  const int lane = static_cast<int>(threadIdx.x) % warp;
  const std::int64_t block = static_cast<std::int64_t>(blockIdx.x) * warps + threadIdx.x / warp;
  if (block >= blocks) return;
  std::uint32_t* const own = words + block * format.words;
  const std::int64_t begin = block * format.elements;
  const auto size = static_cast<int>(min(format.elements, elements - begin));
  float sums[count], decoded[count], total = 0;
  int largest = 0;
#pragma unroll
  for (int k = 0; k < count; ++k) {
    const int at = k * warp + lane;
    sums[k] = at < size ? numbers.read(begin + at) : 0;
    largest = max(largest, static_cast<int>(__float_as_uint(sums[k]) & ~sign_bit));
    total = __fadd_rn(total, fabsf(sums[k]));
  }
  largest = largest_of(largest);
  float scale = __fdiv_rn(sum_of(total), static_cast<float>(size));
  if (largest >= static_cast<int>(infinity_bits) || (code == BlockCode::sign && !isfinite(scale)))
    return write_not_finite<code>(own, lane);
  if constexpr (code == BlockCode::sign) {
    encode_signs(sums, scale, own, decoded, lane);
  } else {
    scale = encode_int8(sums, __int_as_float(largest), own, decoded, lane);
  }
  if (lane == 0) own[format.words - 1] = __float_as_uint(scale);
#pragma unroll
  for (int k = 0; k < count; ++k) {
    const int at = k * warp + lane;
    if (at < size) numbers.keep(begin + at, __fsub_rn(sums[k], decoded[k]));
  }
}

template <BlockCode code>
__device__ float decoded_at(const std::uint32_t* words, int k, int lane) {
  const float scale = __uint_as_float(words[Lane<code>::format.words - 1]);
  if constexpr (code == BlockCode::sign) {
    return __uint_as_float(__float_as_uint(scale) ^ ((words[k] >> lane & 1U) != 0 ? sign_bit : 0U));
  } else {
    return __fmul_rn(static_cast<float>(reinterpret_cast<const std::int8_t*>(words)[k * warp + lane]), scale);
  }
}

template <BlockCode code, class Numbers>
__global__ void __launch_bounds__(warp* warps) decode_kernel(Numbers numbers, std::int64_t elements, std::int64_t blocks,
                                                             const std::uint32_t* __restrict__ words, int copies) {
  constexpr BlockFormat format = Lane<code>::format;
  const int lane = static_cast<int>(threadIdx.x) % warp;
  const std::int64_t block = static_cast<std::int64_t>(blockIdx.x) * warps + threadIdx.x / warp;
  if (block >= blocks) return;
  const std::int64_t begin = block * format.elements;
  const auto size = static_cast<int>(min(format.elements, elements - begin));
#pragma unroll 8
  for (int k = 0; k < Lane<code>::count; ++k) {
    const int at = k * warp + lane;
    if (at >= size) break;
    float sum = decoded_at<code>(words + block * format.words, k, lane);
    for (int copy = 1; copy < copies; ++copy)
      sum = __fadd_rn(sum, decoded_at<code>(words + (copy * blocks + block) * format.words, k, lane));
    numbers.write(begin + at, sum);
  }
}

// Calls body with the tensor's numbers.
template <class Body>
void with_numbers(const Tensor& tensor, const Body& body) {
  if (tensor.dtype == DType::bf16) return body(Plain<__nv_bfloat16>{static_cast<__nv_bfloat16*>(tensor.data)});
  if (tensor.dtype == DType::f16) return body(Plain<__half>{static_cast<__half*>(tensor.data)});
  if (tensor.dtype == DType::f32) return body(Plain<float>{static_cast<float*>(tensor.data)});
  throw Error(ErrorKind::internal, std::string("GPUs code no numbers of ") + to_string(tensor.dtype));
}

template <BlockCode code>
class CudaBlockCoder final : public BlockCoder {
 public:
  explicit CudaBlockCoder(int device) {
    constexpr const char* loading = "loading the kernels that code numbers in few bits";
    cuda_check(cudaSetDevice(device), loading, device);
    const auto load = [](const auto& numbers) {
      encode_kernel<code><<<1, warp * warps>>>(numbers, 0, 0, nullptr);
      decode_kernel<code><<<1, warp * warps>>>(numbers, 0, 0, nullptr, 1);
    };
    load(FedBack{});
    for (const DType type : {DType::f32, DType::bf16, DType::f16}) with_numbers({nullptr, {0}, type}, load);
    cuda_check(cudaGetLastError(), loading, device);
    cuda_check(cudaDeviceSynchronize(), loading, device);
  }

  void encode(Stream& stream, const BlockRun& run, std::uint32_t* words) const override {
    encode_any(stream, FedBack{run}, run.elements, words);
  }
  void decode(Stream& stream, const BlockRun& run, const std::uint32_t* words, int copies) const override {
    decode_any(stream, FedBack{run}, run.elements, words, copies);
  }
  void encode_numbers(Stream& stream, const Tensor& tensor, std::uint32_t* words) const override {
    with_numbers(tensor, [&](const auto& numbers) { encode_any(stream, numbers, tensor.elements(), words); });
  }
  void decode_numbers(Stream& stream, const std::uint32_t* words, const Tensor& tensor) const override {
    with_numbers(tensor, [&](const auto& numbers) { decode_any(stream, numbers, tensor.elements(), words, 1); });
  }

 private:
  template <class Numbers>
  static void encode_any(Stream& stream, const Numbers& numbers, std::int64_t elements, std::uint32_t* words) {
    launch(stream, elements, [&](unsigned grid, std::int64_t blocks, cudaStream_t native) {
      encode_kernel<code><<<grid, warp * warps, 0, native>>>(numbers, elements, blocks, words);
    });
  }
  template <class Numbers>
  static void decode_any(Stream& stream, const Numbers& numbers, std::int64_t elements, const std::uint32_t* words,
                         int copies) {
    launch(stream, elements, [&](unsigned grid, std::int64_t blocks, cudaStream_t native) {
      decode_kernel<code><<<grid, warp * warps, 0, native>>>(numbers, elements, blocks, words, copies);
    });
  }
  template <class Kernel>
  static void launch(Stream& stream, std::int64_t elements, const Kernel& kernel) {
    CudaStream& on = cuda_stream(stream);
    const std::int64_t blocks = blocks_of(code, elements);
    if (blocks == 0 || !on.begin()) return;
    kernel(static_cast<unsigned>((blocks + warps - 1) / warps), blocks, on.native());
    on.end("coding numbers in few bits");
  }
};

}  // namespace

std::unique_ptr<BlockCoder> make_cuda_block_coder(Device& device, BlockCode code) {
  const int index = device.id().index;
  if (code == BlockCode::sign) return std::make_unique<CudaBlockCoder<BlockCode::sign>>(index);
  return std::make_unique<CudaBlockCoder<BlockCode::int8>>(index);
}

}  // namespace pipetrain
