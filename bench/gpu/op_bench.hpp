// The tools to measure operations: a device with a stream, operations on it, and tensors of random numbers.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "core/buffer.hpp"
#include "core/device.hpp"
#include "ops/ops.hpp"

namespace pipetrain::bench {

class OpBench {
 public:
  OpBench(std::unique_ptr<Device> device, std::unique_ptr<Stream> stream, std::unique_ptr<Ops> ops);

  Device& device() { return *device_; }
  Stream& stream() { return *stream_; }
  Ops& ops() { return *ops_; }

  // Makes a tensor. f32 and bf16 are random, between 1/4 and 2, of either sign; other types are zero. Freed by free_all().
  Tensor make(const Shape& shape, DType dtype);
  // Makes both layouts, without setting values.
  Fp8Matrix make_fp8(const Shape& shape, DType dtype, Fp8Scales scales);
  // Makes i32 ids below the vocabulary.
  Tensor make_ids(std::int64_t tokens, std::int64_t vocabulary);
  void fill(const Tensor& tensor);
  // Nothing may run on the stream.
  void free_all() { memory_.clear(); }

  // Returns the seconds of a call: the median of several runs of `calls` calls in a row, including the gaps between launches.
  double seconds(int calls, const std::function<void(int)>& call);

 private:
  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Ops> ops_;
  Buffer source_;  // random numbers, as f32 and as bf16
  std::vector<Buffer> memory_;
};

OpBench gpu_op_bench();
OpBench cpu_op_bench();

}  // namespace pipetrain::bench
