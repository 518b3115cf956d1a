#include "bench/gpu/op_bench.hpp"

#include <algorithm>
#include <chrono>
#include <random>
#include <utility>

#include "bench/gpu/random_memory.hpp"

namespace pipetrain::bench {

OpBench::OpBench(std::unique_ptr<Device> device, std::unique_ptr<Stream> stream, std::unique_ptr<Ops> ops)
    : device_(std::move(device)), stream_(std::move(stream)), ops_(std::move(ops)) {
  source_ = device_->allocate(std::size_t{64} << 20, "random numbers");
  fill_with_random_numbers(*stream_, source_);
}

Tensor OpBench::make(const Shape& shape, DType dtype) {
  Tensor tensor{nullptr, shape, dtype};
  memory_.push_back(device_->allocate(tensor.bytes(), "bench tensor"));
  tensor.data = memory_.back().data();
  fill(tensor);
  return tensor;
}

Fp8Matrix OpBench::make_fp8(const Shape& shape, DType dtype, Fp8Scales scales) {
  Fp8Matrix matrix;
  matrix.scales = scales;
  matrix.rows = make(shape, dtype), matrix.cols = make({shape[1], round_up_to_fp8(shape[0])}, dtype);
  if (scales == Fp8Scales::tensor) {
    matrix.scale = make({2}, DType::f32);
  } else {
    matrix.row_scales = make(fp8_scale_shape(scales, matrix.rows.shape), DType::f32);
    matrix.col_scales = make(fp8_scale_shape(scales, matrix.cols.shape), DType::f32);
  }
  return matrix;
}

void OpBench::fill(const Tensor& tensor) {
  if (tensor.dtype != DType::f32 && tensor.dtype != DType::bf16) return stream_->zero(tensor);
  for (std::size_t at = 0; at < tensor.bytes(); at += source_.bytes()) {
    stream_->copy(static_cast<char*>(tensor.data) + at, source_.data(), std::min(source_.bytes(), tensor.bytes() - at));
  }
}

Tensor OpBench::make_ids(std::int64_t tokens, std::int64_t vocabulary) {
  const Tensor ids = make({tokens}, DType::i32);
  std::mt19937 random(2);
  std::vector<std::int32_t> values(static_cast<std::size_t>(tokens));
  for (auto& value : values) value = static_cast<std::int32_t>(random() % static_cast<std::uint32_t>(vocabulary));
  stream_->copy(ids.data, values.data(), ids.bytes());
  stream_->synchronize();
  return ids;
}

double OpBench::seconds(int calls, const std::function<void(int)>& call) {
  for (int i = 0; i < calls; ++i) call(i);
  stream_->synchronize();
  std::vector<double> times;
  for (int round = 0; round < 5; ++round) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) call(i);
    stream_->synchronize();
    times.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / calls);
  }
  std::nth_element(times.begin(), times.begin() + 2, times.end());
  return times[2];
}

OpBench gpu_op_bench() {
  auto device = make_cuda_device(0);
  auto stream = device->make_stream("bench");
  auto ops = make_cuda_ops(*stream);
  return {std::move(device), std::move(stream), std::move(ops)};
}

OpBench cpu_op_bench() {
  auto device = make_cpu_device(0, 1);
  auto stream = device->make_stream("bench");
  auto ops = make_cpu_ops(*stream);
  return {std::move(device), std::move(stream), std::move(ops)};
}

}  // namespace pipetrain::bench
