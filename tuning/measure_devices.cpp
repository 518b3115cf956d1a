#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <random>
#include <vector>

#include "core/device.hpp"
#include "ops/half_products.hpp"
#include "ops/ops.hpp"
#include "tuning/measured_devices.hpp"

namespace pipetrain {

namespace {

using Clock = std::chrono::steady_clock;

// Norm, product, swiglu or rotary, attention, product: the operations of a block's pass, in round numbers.
constexpr double operations_in_a_block = 5;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// Large enough to keep a device busy, small enough that a core takes only some milliseconds.
struct Sizes {
  std::int64_t tokens, inputs, outputs;
  std::size_t copied;
  // Seconds of the same work before a measurement, and of the measurement. A GPU clocks higher than it can sustain
  // until it reaches its power limit, which products of random numbers do after about a second.
  double warm_up, measured;
};
Sizes sizes_for(DeviceKind kind) {
  if (kind == DeviceKind::cpu) return {256, 1024, 1024, std::size_t{32} << 20, 0.2, 0.2};
  return {4096, 4096, 11008, std::size_t{256} << 20, 1.5, 0.5};
}

// One device with a stream and operations on it.
class MeasuringWorker {
 public:
  MeasuringWorker(DeviceKind kind, int index, int threads)
      : device_(kind == DeviceKind::cpu ? make_cpu_device(index, threads) : make_cuda_device(index)),
        stream_(device_->make_stream("measure")),
        ops_(kind == DeviceKind::cpu ? make_cpu_ops(*stream_) : make_cuda_ops(*stream_)),
        workspace_memory_(device_->allocate(std::size_t{64} << 20, "workspace")),
        workspace_(workspace_memory_.data(), workspace_memory_.bytes(), "workspace") {
    ops_->set_workspace(workspace_);
  }

  Device& device() { return *device_; }
  Stream& stream() { return *stream_; }
  Ops& ops() { return *ops_; }

  // Makes numbers between 1/4 and 2 of either sign, in f32 and in bf16. The power that a product takes depends on them.
  Tensor random(const Shape& shape, DType dtype) {
    Tensor tensor{nullptr, shape, dtype};
    buffers_.push_back(device_->allocate(tensor.bytes(), "measurements"));
    tensor.data = buffers_.back().data();
    static const std::vector<std::uint32_t> words = [] {
      std::mt19937 generator(1);
      std::vector<std::uint32_t> all(std::size_t{1} << 20);
      for (auto& word : all) word = (generator() & 0x81FF81FFU) | 0x3E003E00U;
      return all;
    }();
    const std::size_t block = words.size() * sizeof(words[0]);
    for (std::size_t at = 0; at < tensor.bytes(); at += block)
      stream_->copy(static_cast<char*>(tensor.data) + at, words.data(), std::min(block, tensor.bytes() - at));
    stream_->synchronize();
    return tensor;
  }
  void free_all() { buffers_.clear(); }

 private:
  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Ops> ops_;
  Buffer workspace_memory_;
  Arena workspace_;
  std::vector<Buffer> buffers_;
};

class Measurement {
 public:
  Measurement(DeviceKind kind, int count, int threads) : sizes_(sizes_for(kind)) {
    for (int index = 0; index < count; ++index) workers_.push_back(std::make_unique<MeasuringWorker>(kind, index, threads));
  }

  double memory_bytes() {
    double least = static_cast<double>(workers_.front()->device().memory().free);
    for (const auto& worker : workers_) least = std::min(least, static_cast<double>(worker->device().memory().free));
    return least;
  }

  double flops(DType dtype) {
    const Product product{sizes_.tokens, sizes_.inputs, sizes_.outputs};
    return 2.0 * static_cast<double>(product.tokens * product.inputs * product.outputs) / product_seconds(product, dtype);
  }
  double operation_seconds(DType dtype) { return product_seconds({8, 16, 16}, dtype); }

  double memory_rate() {
    const auto count = static_cast<std::int64_t>(sizes_.copied / sizeof(float));
    std::vector<std::function<void()>> calls;
    for (const auto& worker : workers_) {
      const Tensor from = worker->random({count}, DType::f32), to = worker->random({count}, DType::f32);
      calls.push_back([&stream = worker->stream(), from, to] { stream.copy(to.data, from.data, from.bytes()); });
    }
    return 2.0 * static_cast<double>(sizes_.copied) / seconds_a_call(calls);
  }

  // Measures copies from the first device's memory to the second's.
  double link_rate() {
    const auto count = static_cast<std::int64_t>(sizes_.copied / sizeof(float));
    const Tensor from = workers_[0]->random({count}, DType::f32), to = workers_[1]->random({count}, DType::f32);
    std::vector<std::function<void()>> calls{
        [&stream = workers_[0]->stream(), from, to] { stream.copy(to.data, from.data, from.bytes()); }};
    const double rate = static_cast<double>(sizes_.copied) / seconds_a_call(calls);
    for (const auto& worker : workers_) worker->free_all();
    return rate;
  }

  // Measures a round trip of a small message: each stream waits for the other's write.
  double latency() {
    constexpr int rounds = 200;
    constexpr std::size_t bytes = 256;
    Stream& one = workers_[0]->stream();
    Stream& other = workers_[1]->stream();
    const Tensor here = workers_[0]->random({bytes / sizeof(float)}, DType::f32);
    const Tensor there = workers_[1]->random({bytes / sizeof(float)}, DType::f32);
    std::vector<std::unique_ptr<Event>> sent, answered;  // each recorded once
    for (int round = 0; round <= rounds; ++round) {
      sent.push_back(workers_[0]->device().make_event());
      answered.push_back(workers_[1]->device().make_event());
    }
    other.record(*answered[0]);
    const auto start = Clock::now();
    for (int round = 0; round < rounds; ++round) {
      const auto at = static_cast<std::size_t>(round);
      one.wait(*answered[at]);
      one.copy(there.data, here.data, bytes);
      one.record(*sent[at]);
      other.wait(*sent[at]);
      other.copy(here.data, there.data, bytes);
      other.record(*answered[at + 1]);
    }
    one.synchronize();
    other.synchronize();
    const double seconds = seconds_since(start) / (2 * rounds);
    for (const auto& worker : workers_) worker->free_all();
    return seconds;
  }

 private:
  struct Product {
    std::int64_t tokens, inputs, outputs;
  };

  double product_seconds(const Product& size, DType dtype) {
    std::vector<std::function<void()>> calls;
    for (const auto& worker : workers_) {
      const Tensor x = worker->random({size.tokens, size.inputs}, dtype),
                   w = worker->random({size.outputs, size.inputs}, dtype);
      const Tensor y = worker->random({size.tokens, size.outputs}, dtype);
      calls.push_back([&ops = worker->ops(), x, w, y] {
        ops.gather_matmul({.kind = MatmulKind::forward, .shard = x, .w = w, .full = x, .out = y});
      });
    }
    return seconds_a_call(calls);
  }

  // Runs the work on all devices at once, without a pause. The clock determines how often, because the first calls,
  // which set things up, take many times as long as later ones.
  double seconds_a_call(const std::vector<std::function<void()>>& calls) {
    constexpr double between_looks = 0.05;
    const auto times_in = [](double span, double seconds) {
      return std::clamp(static_cast<int>(span / seconds), 3, 1'000'000);
    };
    const auto start = Clock::now();
    double seconds = run(calls, 3) / 3;
    while (seconds_since(start) < sizes_.warm_up) {
      const int times = times_in(between_looks, seconds);
      seconds = run(calls, times) / times;
    }
    const int times = times_in(sizes_.measured, seconds);
    seconds = run(calls, times) / times;
    for (const auto& worker : workers_) worker->free_all();
    return seconds;
  }

  double run(const std::vector<std::function<void()>>& calls, int times) {
    const auto start = Clock::now();
    for (int i = 0; i < times; ++i)
      for (const auto& call : calls) call();
    for (const auto& worker : workers_) worker->stream().synchronize();
    return seconds_since(start);
  }

  Sizes sizes_;
  std::vector<std::unique_ptr<MeasuringWorker>> workers_;
};

}  // namespace

MeasuredDevices measure_devices(DeviceKind kind, int count, int threads) {
  Measurement measurement(kind, count, threads);
  MeasuredDevices devices;
  devices.kind = kind;
  devices.count = count;
  devices.threads = threads;
  // CPU devices share the machine's memory.
  devices.memory_bytes = measurement.memory_bytes() / (kind == DeviceKind::cpu ? count : 1);
  devices.fp32_flops = measurement.flops(DType::f32);
  if (kind == DeviceKind::cuda || half_products(DType::bf16).native) devices.bf16_flops = measurement.flops(DType::bf16);
  devices.block_overhead =
      operations_in_a_block * measurement.operation_seconds(kind == DeviceKind::cuda ? DType::bf16 : DType::f32);
  devices.memory_rate = measurement.memory_rate();
  if (count > 1) {
    devices.link_rate = measurement.link_rate();
    devices.latency = measurement.latency();
  }
  return devices;
}

}  // namespace pipetrain
