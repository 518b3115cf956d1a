// The features of a run that do not work with every other one. combinations.hpp lists the pairs that do not work.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "core/device_kind.hpp"
#include "core/setting.hpp"

namespace pipetrain {

class Mesh;
struct TrainJob;

// features.cpp has a row for each, in this order.
enum class Feature {
  ready_order,
  replayed_order,
  no_ready_rule,
  braids,
  exchanging_braids,  // their actions take turns
  custom_actions,
  slices,
  whole_microbatches,
  tensor_parallel,
  divided_stages,
  context_parallel,
  isolated_documents,
  dropout,
  classification,
  preferences,
  further_prediction,
  experts,
  isolated_experts,
  expert_parallel,
  expert_capacity,
  expert_biases,
  layer_balance,
  sigmoid_router,
  router_z_loss,
  half_precision,
  scaled_loss,
  adapter_dropout,
  expert_adapters,
  quantised_base,
  loss_chunks,
  fp8,
  fp8_blockwise,
  latent_attention,
  one_replica,
  zero,
  zero_2,
  zero_3,
  compressed_gradients,
  one_bit_gradients,
  compression_hosts,
  compressed_weights,
  whole_states,
  stepped_in_place,
  zero_times,
  offload,
  host_offload,
  offload_optimizer,
  offload_parameters,
  offload_activations,
  chosen_offload,
  whole_matrices,
  singular_vectors,
  eight_bit_moments,
  other_optimizer,
  post_validation,
  elastic,
  record,
  profile,
  jitter,
  solver_bound,
  solver_time,
  cut_search,
  several_hosts,
  pytorch_csv,
};

struct UsedFeatures {
  std::optional<DeviceKind> device;       // not given: a command that knows of no devices
  std::map<Feature, Setting> settings{};  // each used feature, with the setting that asks for it

  void add(Feature feature, const std::string& setting, const std::string& value) { settings[feature] = {setting, value}; }
};

// Returns the features that the job uses, as far as it knows: a job whose model, data or plan is not open yet has none of
// theirs. ranks: where each rank runs, or would run; null: not known yet. Features of a command's own outputs and searches,
// such as Feature::profile, are for the command to add.
UsedFeatures features_of(const TrainJob& job, const Mesh* ranks = nullptr);

// Returns the feature in words, with settings in braces: "{order ready}". The program that prints it decides how settings are
// spelled.
const char* name_of(Feature feature);

}  // namespace pipetrain
