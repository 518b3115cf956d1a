// Compares two ways to run AdamW when the optimizer's states are in host memory: on CPU cores, in place, and by
// streaming them through a GPU, as --offload optimizer does. Without a GPU only the first.
//
// bench_host_optimizer [PARAMETERS [THREADS...]]: 500,000,000, and the machine's cores. Each parameter takes 16 bytes
// of locked memory.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "actors/training/state/offloaded_optimizer.hpp"
#include "bench/result.hpp"
#include "core/device.hpp"
#include "core/threads/on_threads.hpp"
#include "model/optimizer/optimizer.hpp"
#include "ops/ops.hpp"

namespace pipetrain::bench {
namespace {

// Takes the median, because other programs may use the machine too.
double median_seconds(const std::function<void()>& work) {
  constexpr int runs = 7;
  std::vector<double> seconds;
  work();
  for (int run = 0; run < runs; ++run) {
    const auto start = std::chrono::steady_clock::now();
    work();
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  std::nth_element(seconds.begin(), seconds.begin() + runs / 2, seconds.end());
  return seconds[runs / 2];
}

void report_step(const std::string& name, std::size_t parameters, double seconds, double bytes) {
  const auto count = static_cast<double>(parameters);
  report(name, count / seconds / 1e9, "billion parameters/s");
  report(name + ", memory", count * bytes / seconds / 1e9, "GB/s");
}

std::vector<OptimizerPart> one_part(std::size_t parameters) { return {{.elements = parameters}}; }

// Reads weights, gradients and two moments, and writes all but the gradients: 28 bytes.
void step_on_cores(std::size_t parameters, int threads, Device* gpu) {
  const auto cpu = make_cpu_device(0, threads);
  const auto stream = cpu->make_stream("bench");
  const auto ops = make_cpu_ops(*stream);
  const auto optimizer = make_optimizer(OptimizerSettings{});
  std::vector<Buffer> memory;
  std::vector<Tensor> arenas;
  const std::size_t bytes = parameters * sizeof(float);
  for (int arena = 0; arena < 4; ++arena) {
    memory.push_back((gpu != nullptr ? gpu : cpu.get())->allocate_host(bytes, "states"));
    auto* const data = static_cast<char*>(memory.back().data());
    const auto parts = static_cast<std::size_t>(threads);
    on_threads(static_cast<unsigned>(threads), parts, [&](std::size_t i) {
      const std::size_t begin = bytes / parts * i, end = i + 1 == parts ? bytes : begin + bytes / parts;
      std::memset(data + begin, 0, end - begin);
    });
    arenas.push_back({data, {static_cast<std::int64_t>(parameters)}, DType::f32});
  }
  const OptimizerArenas all{arenas[0], arenas[1], {arenas[2], arenas[3]}, {}};
  const auto step = [&] {
    optimizer_step(one_part(parameters), *ops, all, *optimizer, {.lr = 1e-3F, .step = 5, .grad_scale = 1});
    stream->synchronize();
  };
  report_step(
      "AdamW in " + std::string(gpu != nullptr ? "locked " : "") + "host memory on " + std::to_string(threads) + " threads",
      parameters, median_seconds(step), 28);
}

// A single tensor that is trained in bf16, with master weights.
ParameterLayout one_tensor(std::size_t parameters) {
  const Shape shape{static_cast<std::int64_t>(parameters)};
  ParameterLayout layout;
  layout.blocks = {{{BlockKind::mlp, 0}, 0, {{TensorRole::mlp_in_weight, shape}}}};
  layout.parameters = {{.name = "weight", .role = TensorRole::mlp_in_weight, .full = shape, .local = shape}};
  layout.weight_elements = layout.grad_elements = parameters;
  layout.chunk_grads = {{0, parameters}};
  layout.replicated_grads = layout.shared_grads = layout.zeroed_grads = {{0, 0}};
  return layout;
}

// Moments and master weights are copied in and out, 12 bytes each way; gradients and rounded weights stay on the GPU.
void step_through_gpu(std::size_t parameters, Device& gpu) {
  const auto stream = gpu.make_stream("bench");
  const auto ops = make_cuda_ops(*stream, true);
  const auto optimizer = make_optimizer(OptimizerSettings{});
  const Precision precision = Precision::bf16();
  const Offload offload{.optimizer = true};
  const ParameterLayout layout = one_tensor(parameters);
  StatePlaces::Setup setup{};
  setup.precision = precision;
  setup.offload = offload;
  const StatePlaces places(layout, setup);
  const Buffer memory = gpu.allocate(parameters * sizeof(float), "gradients");
  const Tensor grads{memory.data(), {static_cast<std::int64_t>(parameters)}, DType::f32};
  stream->zero(grads);
  OffloadStreams streams(gpu, "bench");
  OffloadedOptimizer offloaded({gpu, *ops, *optimizer, "adamw", places, precision, offload, "bench"}, streams, nullptr);
  const auto step = [&] {
    offloaded.step(grads, {.lr = 1e-3F, .step = 5, .grad_scale = 1}, {[](std::size_t) {}, [](std::size_t) {}});
    stream->synchronize();
    streams.synchronize();
  };
  report_step("AdamW streamed through " + to_string(gpu.id()), parameters, median_seconds(step), 24);
}

void run(int count, const char* const* arguments) {
  const std::size_t parameters = count > 1 ? std::stoull(arguments[1]) : 500'000'000;
  std::vector<int> threads;
  for (int i = 2; i < count; ++i) threads.push_back(std::stoi(arguments[i]));
  if (threads.empty()) threads.push_back(static_cast<int>(std::max(1U, std::thread::hardware_concurrency())));
  const std::unique_ptr<Device> gpu = cuda_device_count() > 0 ? make_cuda_device(0) : nullptr;
  for (const int some : threads) step_on_cores(parameters, some, gpu.get());
  if (gpu) step_through_gpu(parameters, *gpu);
}

}  // namespace
}  // namespace pipetrain::bench

int main(int count, char** arguments) {
  try {
    pipetrain::bench::run(count, arguments);
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_host_optimizer: {}\n", error.what());
    return 1;
  }
  return 0;
}
