#include "actors/training/job/fp8_support.hpp"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "core/device_name.hpp"
#include "core/error.hpp"
#include "model/config/mode_names.hpp"
#include "model/fp8_weights.hpp"
#include "ops/arguments.hpp"

namespace pipetrain {
namespace {

[[noreturn]] void refuse_fp8(const std::string& why) { throw Error(ErrorKind::input, {"precision", "fp8"}, why); }

void check_bf16_layers(const TrainJob& job) {
  const auto& [at_start, at_end] = job.numerics.bf16_layers;
  const auto fail = [&](const std::string& why) {
    if (at_start > 0) throw Error(ErrorKind::input, {"num-layers-at-start-in-bf16", std::to_string(at_start)}, why);
    throw Error(ErrorKind::input, {"num-layers-at-end-in-bf16", std::to_string(at_end)}, why);
  };
  if (at_start == 0 && at_end == 0) return;
  if (!job.numerics.precision.fp8_products)
    fail(fmt::format("is of precision fp8, and this run's is {}; leave it out", precision_name(job.numerics.precision)));
  if (at_start + at_end >= job.config.layers)
    fail(fmt::format("no layer of the model's {} is left to be in fp8; name fewer, or use bf16", job.config.layers));
}

void check_sizes(const ModelConfig& config, int tp) {
  const auto misfit = fp8_misfit(config, tp);
  if (!misfit) return;
  const bool over_ranks = !fp8_misfit(config, 1);
  refuse_fp8(fmt::format("the model's {} is {}{}, and products in 8 bits need multiples of {}; use bf16{}", misfit->what,
                         misfit->size, over_ranks ? fmt::format(" over {} ranks", tp) : "", fp8_multiple,
                         over_ranks ? ", or a smaller tp" : ""));
}

// Tiles lie in columns of as many scales as a microbatch has tokens, of which products take multiples of 4.
void check_tokens(const TrainJob& job) {
  if (!job.numerics.precision.fp8_blockwise || job.dataset == nullptr) return;
  constexpr std::int64_t multiple = 4;
  const std::int64_t tokens = job.batch.microbatch * job.dataset->sequence_length();
  if (tokens % multiple == 0) return;
  throw Error(ErrorKind::input, {"fp8-recipe", "blockwise"},
              fmt::format("a microbatch of {} x {} tokens is no multiple of {}, as its products need; give another seq-len or "
                          "microbatch, or use tensorwise",
                          job.batch.microbatch, job.dataset->sequence_length(), multiple));
}

}  // namespace

void check_fp8(const TrainJob& job) {
  check_bf16_layers(job);
  if (!job.numerics.precision.fp8_products) return;
  if (job.devices.kind != DeviceKind::cuda) refuse_fp8("products in 8 bits are not built on the CPU; use fp32");
  check_sizes(job.config, job.layout.tp);
  check_tokens(job);
  const std::vector<int> first{0};
  for (const int gpu : job.devices.gpus.empty() ? first : job.devices.gpus) {
    const std::string name = cuda_device_name(gpu);
    if (name.empty()) continue;  // opening it says that it is not there
    if (!cuda_multiplies_fp8(gpu))
      refuse_fp8(fmt::format("GPU {} ({}) does not multiply in 8 bits as Hopper GPUs do; use bf16", gpu, name));
  }
}

}  // namespace pipetrain
