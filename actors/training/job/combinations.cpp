#include "actors/training/job/combinations.hpp"

#include <algorithm>
#include <iterator>

#include "core/error.hpp"

namespace pipetrain {
namespace {

constexpr Combination excluded(Feature feature, Feature other, const char* why) { return {feature, other, {}, why, false}; }
constexpr Combination not_built(Feature feature, Feature other, const char* why) { return {feature, other, {}, why, true}; }
constexpr Combination not_built_on_gpus(Feature feature, Feature other, const char* why) {
  return {feature, other, DeviceKind::cuda, why, true};
}

// A run that meets several rows is refused for the first of them.
struct CombinationTable {
  using enum Feature;
  static constexpr Combination rows[] = {
      {fp8, {}, DeviceKind::cpu, "fp8 is not built on the CPU; use fp32, bf16 or fp16", true},
      {host_offload,
       {},
       DeviceKind::cpu,
       "a CPU's memory is the host's already, so there is nothing to move; leave it out, or give train a folder on a disk with "
       "offload-to",
       false},
      excluded(zero, one_replica, "zero divides state among replicas, and there is one; give dp 2 or more, or leave it out"),
      excluded(compressed_gradients, one_replica,
               "replicas compress what they exchange, and there is one; give dp 2 or more, or leave it out"),
      not_built(compressed_gradients, zero_2,
                "compressed gradients whose sums are divided are not built yet; use zero 0 or 1, or leave it out"),
      not_built(compressed_gradients, offload, "compressed gradients with offload are not built yet; leave out one of them"),
      not_built(compressed_gradients, expert_parallel,
                "compressed gradients of experts that ranks divide are not built yet; use ep 1, or leave it out"),
      excluded(
          compressed_gradients, scaled_loss,
          "the errors that compression feeds back have the loss scale of their step, and fp16 changes it; use bf16 or fp32"),
      not_built(
          compressed_gradients, elastic,
          "errors of compressed gradients belong to a replica, and no other can take them over yet; leave out one of them"),
      not_built(one_bit_gradients, zero,
                "replicas exchange the first moments of all weights in 1 bit, and zero divides them; use zero 0, or int8"),
      excluded(one_bit_gradients, other_optimizer, "1-bit Adam exchanges the first moments of AdamW; use adamw, or int8"),
      not_built(compression_hosts, zero,
                "sums of a host whose owners zero divides are not built yet; use zero 0, or leave it out"),
      not_built(one_bit_gradients, post_validation,
                "updates from first moments that replicas exchanged are not previewed yet; turn it off, or use int8"),

      excluded(compressed_weights, whole_states,
               "replicas gather weights that they divide, and zero 0 divides none; use zero 1, 2 or 3, or leave it out"),
      not_built(compressed_weights, stepped_in_place,
                "a replica steps the fp32 weights that operations read in place, and decoded ones would replace them; use "
                "precision bf16, or zero 3"),
      not_built(compressed_weights, offload, "weights in few bits with offload are not built yet; leave out one of them"),

      excluded(ready_order, no_ready_rule, "the schedule has no rule for what is ready; use planned"),
      excluded(ready_order, slices, "slices keep the plan's order; use planned"),
      excluded(ready_order, zero_3, "replicas gather the weights of zero 3 in the plan's order; use planned"),
      excluded(ready_order, offload_parameters, "offloaded weights are fetched in the plan's order; use planned"),
      excluded(ready_order, offload_activations, "activations are moved in the plan's order; use planned"),
      excluded(ready_order, divided_stages,
               "the ranks of a stage run in several processes, and each would choose its own order; give each process whole "
               "stages, or use planned"),
      excluded(record, replayed_order, "a replayed run makes no choices to record; leave it out"),

      excluded(slices, whole_microbatches, "the schedule passes whole microbatches; use 1f1b or interleaved"),
      not_built(slices, fp8, "slices in fp8 are not built yet; use precision bf16, or leave it out"),
      not_built(slices, classification, "slices of samples with labels are not built yet; leave it out"),
      not_built(slices, offload_activations,
                "slices whose activations are offloaded are not built yet; keep activations on the device, or leave it out"),
      not_built(profile, slices, "costs of slices are not measured yet; leave it out, or use slices 1"),
      excluded(loss_chunks, classification,
               "chunks keep the logits of a vocabulary small, and a classifier has few logits; leave it out"),

      excluded(further_prediction, classification, "a model that classifies predicts no tokens; leave it out"),
      excluded(further_prediction, preferences, "preferences compare whole completions; use loss lm, or leave it out"),
      not_built(further_prediction, isolated_documents,
                "further predictions that end with their document are not built yet; use pack documents, or leave it out"),
      {further_prediction, {}, DeviceKind::cuda, "a further prediction is not built for GPUs yet; use the CPU", true},

      excluded(preferences, classification, "preferences compare texts, and the model's head gives classes; use loss lm"),
      excluded(preferences, dropout,
               "preferences compare log-probabilities, which dropout would draw at random; use dropout 0"),
      excluded(preferences, adapter_dropout,
               "preferences compare log-probabilities, which dropout would draw at random; use lora-dropout 0"),
      not_built(preferences, experts,
                "experts of completions, whose lengths differ, are not built yet; use a model without experts"),
      not_built(preferences, post_validation,
                "forward passes of preferences run between steps, so no step begins early; turn it off"),
      not_built(isolated_experts, slices,
                "the balancing loss of documents that slices cut is not built yet; use slices 1, or pack documents"),
      excluded(isolated_experts, expert_capacity,
               "capacities are of whole samples, and each document is a sequence of its own; use moe-capacity none, or pack "
               "documents"),
      {isolated_experts,
       {},
       DeviceKind::cuda,
       "the balancing loss of each document is not built for GPUs yet; use pack documents, or the CPU",
       true},
      not_built(sigmoid_router, router_z_loss,
                "the z-loss of routers of sigmoids is not built yet; use moe-z-loss 0, and moe-bias-rate or moe-aux-loss"),
      not_built(sigmoid_router, half_precision,
                "biases of choices that are rounded to 16 bits would choose other experts, and are not built in fp32 yet; use "
                "precision fp32"),
      excluded(expert_capacity, slices,
               "a slice does not know how many tokens of other slices an expert has; use moe-capacity none, or slices 1"),
      excluded(expert_capacity, context_parallel,
               "a rank does not know how many tokens of other parts an expert has; use moe-capacity none, or cp 1"),
      not_built(experts, fp8_blockwise,
                "experts with a scale for each 128 numbers are not built yet; use fp8-recipe tensorwise, or precision bf16"),
      not_built(latent_attention, fp8, "latent attention in fp8 is not built yet; use precision bf16"),
      excluded(layer_balance, slices, "a layer knows only its own slice of a sequence; use moe-aux-scope model, or slices 1"),
      excluded(layer_balance, context_parallel,
               "a layer knows only its own part of a sequence; use moe-aux-scope model, or cp 1"),

      not_built(quantised_base, fp8,
                "frozen matrices of fewer bits are dequantised for products in 16 bits only; use precision bf16, or the whole "
                "matrices"),
      excluded(
          expert_adapters, adapter_dropout,
          "PEFT drops no inputs of experts, whose matrices it adapts as one parameter; use lora-dropout 0, or name matrices "
          "of attention"),

      not_built_on_gpus(context_parallel, isolated_documents,
                        "GPUs do not share sequences of isolated documents yet; use pack documents, or cp 1"),
      not_built_on_gpus(context_parallel, dropout, "GPUs do not share sequences with dropout yet; use dropout 0, or cp 1"),
      not_built_on_gpus(context_parallel, slices, "GPUs do not share sequences in slices yet; use slices 1, or cp 1"),

      excluded(braids, offload_activations, "braids move no activations; use dualpipe-v, or keep activations on the device"),
      excluded(exchanging_braids, zero_3,
               "replicas gather weights for one action at a time, and a braid alternates two; use zero 2, or dualpipe-v"),
      excluded(exchanging_braids, offload_parameters,
               "weights are fetched for one action at a time, and a braid alternates two; use dualpipe-v"),
      not_built_on_gpus(exchanging_braids, context_parallel,
                        "braids of ranks that share sequences are not built for GPUs yet; use cp 1, or dualpipe-v"),
      not_built(profile, exchanging_braids,
                "the actions of a braid are not measured separately; leave it out, or profile the schedule dualpipe-v"),

      not_built(chosen_offload, slices,
                "a step of slices whose data moves is not simulated yet; use slices 1, or say what to offload"),
      excluded(offload_optimizer, whole_matrices,
               "the optimizer steps whole tensors, and offloaded blocks cut them; leave it out"),
      excluded(offload_parameters, whole_matrices,
               "the optimizer steps whole tensors, and offloaded blocks cut them; leave it out"),
      excluded(offload_optimizer, eight_bit_moments,
               "moments in 8 bits take a quarter of the memory, and stay on the device; leave it out, or use adamw"),
      excluded(offload_parameters, eight_bit_moments,
               "weights stay on the device with their moments in 8 bits; leave it out, or use the optimizer adamw"),

      excluded(post_validation, ready_order, "a step begins early in the planned order only; leave out order, or turn it off"),
      excluded(post_validation, expert_biases,
               "biases follow from the loads of the step before, and steps overlap; use moe-bias-rate 0, or turn it off"),
      excluded(post_validation, replayed_order,
               "a record holds one step at a time, and steps overlap; leave out the replayed order, or turn it off"),
      excluded(post_validation, record,
               "a record holds one step at a time, and steps overlap; leave out record, or turn it off"),
      not_built(post_validation, slices, "slices cannot begin before the verdict on the previous step yet; turn it off"),
      excluded(post_validation, zero,
               "a step that begins early reads weights that are whole on every replica, and zero 1 to 3 divide them or publish "
               "them after the verdict; use zero 0, or turn it off"),
      excluded(post_validation, zero_times,
               "a step that begins early reads weights that are whole on every replica; leave out gather-weights and "
               "publish-weights"),
      excluded(
          post_validation, offload,
          "a step that begins early needs states on the device, and offload moves them between steps; leave out one of them"),
      not_built(post_validation, fp8,
                "fp8 quantises weights once a step, and no step begins early with it yet; use bf16, or turn it off"),
      excluded(post_validation, custom_actions, "steps of plans with custom actions do not begin early; turn it off"),
      excluded(
          post_validation, divided_stages,
          "all ranks of a stage must be in one process, because they begin early together; give each process whole stages, "
          "or turn it off"),
      excluded(post_validation, jitter, "consecutive steps are simulated without jitter; leave out jitter, or turn it off"),

      {singular_vectors,
       {},
       DeviceKind::cuda,
       "singular vectors of gradients are not built for GPUs yet; use another optimizer, such as adafactor, or the CPU",
       true},
      excluded(post_validation, several_hosts, "tune does not simulate it between hosts; plan one host, or turn it off"),
      excluded(post_validation, cut_search, "cuts are searched for one step alone; leave out cut search, or turn it off"),
      excluded(post_validation, solver_time,
               "the solver makes orders for one step alone; leave out solver-seconds, or turn it off"),

      not_built_on_gpus(elastic, offload, "takeover of offloaded states is not built yet; leave out one of them"),

      excluded(solver_bound, offload_activations,
               "the solver plans no moves of activations, and its bound is for plans without; use another schedule"),
      excluded(pytorch_csv, slices, "PyTorch's format has no slices; write the plan as .txt"),
      excluded(pytorch_csv, offload_activations, "PyTorch's format has no moves of activations; write the plan as .txt"),
      excluded(pytorch_csv, custom_actions, "PyTorch's format has no custom actions; write the plan as .txt"),
  };
};

bool is_met(const Combination& row, const UsedFeatures& used) {
  const auto uses = [&](Feature feature) { return used.settings.count(feature) > 0; };
  return uses(row.feature) && (!row.other || uses(*row.other)) && (!row.device || row.device == used.device);
}

}  // namespace

std::span<const Combination> refused_combinations() { return CombinationTable::rows; }

const Combination* find_refused(const UsedFeatures& used) {
  const auto* row = std::find_if(std::begin(CombinationTable::rows), std::end(CombinationTable::rows),
                                 [&](const Combination& one) { return is_met(one, used); });
  return row == std::end(CombinationTable::rows) ? nullptr : row;
}

void check_combinations(const UsedFeatures& used) {
  if (const Combination* row = find_refused(used)) throw Error(ErrorKind::input, used.settings.at(row->feature), row->why);
}

}  // namespace pipetrain
