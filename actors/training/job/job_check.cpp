#include "actors/training/job/job_check.hpp"

#include <fmt/format.h>

#include <string>

#include "actors/training/job/combinations.hpp"
#include "actors/training/job/train_job.hpp"
#include "core/device_name.hpp"
#include "core/error.hpp"
#include "model/config/attention_limits.hpp"
#include "model/fp8_weights.hpp"
#include "model/parameters/parameters.hpp"
#include "schedules/record/recorded_order.hpp"

namespace pipetrain {
namespace {

[[noreturn]] void refuse_setting(const char* name, const std::string& value, const std::string& why) {
  throw Error(ErrorKind::input, {name, value}, why);
}

void check_bf16_layers(const TrainJob& job) {
  const auto& [at_start, at_end] = job.numerics.bf16_layers;
  if (at_start == 0 && at_end == 0) return;
  const char* const name = at_start > 0 ? "num-layers-at-start-in-bf16" : "num-layers-at-end-in-bf16";
  const std::string value = std::to_string(at_start > 0 ? at_start : at_end);
  if (!job.numerics.precision.fp8_products)
    refuse_setting(name, value, "only a run in fp8 keeps layers in bf16; leave it out, or use precision fp8");
  if (at_start + at_end >= job.config.layers)
    refuse_setting(name, value,
                   fmt::format("no layer of the model's {} is left to be in fp8; name fewer, or use bf16", job.config.layers));
}

void check_matrix_sizes(const ModelConfig& config, int tp) {
  const auto misfit = fp8_misfit(config, tp);
  if (!misfit) return;
  const bool over_ranks = !fp8_misfit(config, 1);
  refuse_setting(
      "precision", "fp8",
      fmt::format("the model's {} is {}{}, and products in 8 bits need multiples of {}; use bf16{}", misfit->what, misfit->size,
                  over_ranks ? fmt::format(" over {} ranks", tp) : "", fp8_multiple, over_ranks ? ", or a smaller tp" : ""));
}

// Checks that a microbatch has a multiple of 4 tokens. The scales of tiles are in columns of one scale per token, and products
// need columns of such a length.
void check_tokens_of_tiles(const TrainJob& job) {
  if (!job.numerics.precision.fp8_blockwise || job.dataset == nullptr) return;
  constexpr std::int64_t multiple = 4;
  const std::int64_t tokens = job.batch.microbatch * job.dataset->sequence_length();
  if (tokens % multiple == 0) return;
  refuse_setting(
      "fp8-recipe", "blockwise",
      fmt::format("a microbatch of {} x {} tokens is no multiple of {}, as its products need; give another seq-len or "
                  "microbatch, or use tensorwise",
                  job.batch.microbatch, job.dataset->sequence_length(), multiple));
}

void check_fp8_gpu(int gpu, bool has_experts) {
  const std::string name = cuda_device_name(gpu);
  if (name.empty() || (has_experts ? cuda_is_hopper(gpu) : cuda_multiplies_fp8(gpu)))
    return;  // opening a missing GPU reports it
  refuse_setting("precision", "fp8",
                 fmt::format("GPU {} ({}) does not multiply {}in 8 bits as Hopper GPUs do; use bf16", gpu, name,
                             has_experts ? "rows of experts " : ""));
}

// A recorded order belongs to one plan.
void check_replayed_plan(const TrainJob& job, const schedules::Plan& plan) {
  if (!job.layout.replayed) return;
  const auto& recorded = *job.layout.replayed;
  if (recorded.replicas == job.mesh_shape().dp && recorded.plan.placement == plan.placement &&
      recorded.plan.stages == plan.stages)
    return;
  refuse_setting(
      "order", "replay",
      fmt::format("the record is of {}, pp {}, dp {}, {} microbatches, or ends its steps otherwise; give the options "
                  "of the recorded run",
                  recorded.plan.schedule, recorded.plan.placement.stages(), recorded.replicas,
                  recorded.plan.microbatches / recorded.plan.slices));
}

void check_recompute_layers(const TrainJob& job) {
  const auto layers = job.numerics.recompute_layers;
  if (!layers || *layers <= job.config.layers) return;
  refuse_setting("recompute-num-layers", std::to_string(*layers),
                 fmt::format("the model has {} layers; name as many or fewer of each stage's", job.config.layers));
}

// The sums over copies of key-value heads follow those over replicas, when offloaded gradients have left the device.
void check_offloaded_gradients(const TrainJob& job) {
  if (!job.offload.gradients || job.layout.tp <= job.config.kv_heads) return;
  refuse_setting("offload", to_string(job.offload),
                 fmt::format("the model's {} key-value heads have copies on {} tensor-parallel devices, whose gradients cannot "
                             "be offloaded; use tp {} or less, or leave gradients out",
                             job.config.kv_heads, job.layout.tp, job.config.kv_heads));
}

void check_compression_hosts(const TrainJob& job) {
  const int hosts = job.compression.hosts, copies = weight_copies(job.mesh_shape());
  if (hosts == 0) return;
  if (job.compression.gradients == BlockCode::none)
    refuse_setting("compress-hosts", std::to_string(hosts),
                   "says where gradients are compressed; give compress-gradients too, or leave it out");
  if (copies % hosts != 0)
    refuse_setting("compress-hosts", std::to_string(hosts),
                   fmt::format("the {} replicas cannot be as many on each host; use a number that divides them", copies));
}

void check_sequence(const TrainJob& job) {
  const std::int64_t sequence = job.dataset->sequence_length(), chunks = sequence_chunks(job);
  const int slices = job.layout.slices, cp = job.layout.cp;
  if (sequence < slices)
    refuse_setting("slices", std::to_string(slices),
                   fmt::format("a sequence of {} tokens has fewer than that; use fewer slices", sequence));
  if (sequence % chunks == 0) return;
  refuse_setting(
      "cp", std::to_string(cp),
      fmt::format("sequences of {} tokens cannot be cut into {}2 x {} equal chunks; use a seq-len that is a multiple "
                  "of {}",
                  sequence, slices > 1 ? fmt::format("{} x ", slices) : "", cp, chunks));
}

}  // namespace

void check_fp8_sizes(const TrainJob& job) {
  check_bf16_layers(job);
  if (!job.numerics.precision.fp8_products) return;
  if (!job.config.input_norms)
    refuse_setting("precision", "fp8", "a model without norms before attention and MLP is not built in fp8; use bf16");
  check_matrix_sizes(job.config, job.layout.tp);
  check_tokens_of_tiles(job);
  const bool has_experts = job.config.routed_layers() > 0;
  if (job.devices.gpus.empty()) check_fp8_gpu(0, has_experts);
  for (const int gpu : job.devices.gpus) check_fp8_gpu(gpu, has_experts);
}

void check_job(const TrainJob& job, const schedules::Plan& plan, const std::vector<std::vector<Block>>& parts,
               const Mesh& ranks) {
  check_combinations(features_of(job, &ranks));
  check_replayed_plan(job, plan);
  // Throws where tp or ep does not divide the model.
  layout_parameters(job.config, parts, 0, job.layout.tp, {0, job.layout.ep});
  check_attention(job.config, job.devices.kind, job.numerics.precision.compute);
  check_fp8_sizes(job);
  check_recompute_layers(job);
  check_offloaded_gradients(job);
  check_compression_hosts(job);
  check_sequence(job);
}

}  // namespace pipetrain
