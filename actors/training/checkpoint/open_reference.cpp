#include "actors/training/checkpoint/open_reference.hpp"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "actors/training/checkpoint/checkpoint.hpp"
#include "actors/training/checkpoint/initial_weights.hpp"
#include "core/error.hpp"
#include "model/weights/peft_folder.hpp"
#include "model/weights/stored_model.hpp"

namespace pipetrain {
namespace {

// Adapters are left out of its passes, but have places in the layout.
std::shared_ptr<const WeightSource> open_stored(const RunSettings& settings, const TrainJob& job) {
  const std::string& folder = settings.preference.reference;
  const ModelConfig stored = read_stored_config(folder);
  if (!same_model(stored, job.config))
    throw Error(ErrorKind::input, {"reference", folder},
                fmt::format("its config.json describes another model than {}; give the folder of a model of the same shape",
                            settings.model.name));
  verify_weights_of_checkpoint(folder);
  ModelConfig config = base_model(job.config);
  config.base_form = stored.base_form;  // that of the folder's matrices, which the run may keep in another
  std::shared_ptr<const WeightSource> weights = stored_weights(config, folder);
  if (!job.config.adapter.exists()) return weights;
  return adapted_weights(weights, new_adapter_weights(job.config, weights, job.samples.seed));
}

}  // namespace

ReferenceModel reference_model(const RunSettings& settings) {
  if (!settings.preference.reference.empty()) return ReferenceModel::stored;
  const AdapterSettings& adapter = settings.model.adapter;
  return adapter.wanted() && adapter.folder.empty() ? ReferenceModel::base : ReferenceModel::begun;
}

std::shared_ptr<const WeightSource> open_reference(const RunSettings& settings, const TrainJob& job) {
  if (!settings.preference.reference.empty()) return open_stored(settings, job);
  if (job.checkpoint.empty()) return job.initial.weights;
  std::vector<std::string> repeated;  // the run has its notes already
  return with_initial_adapter(settings.model, job, base_weights(settings.model, repeated, job));
}

}  // namespace pipetrain
