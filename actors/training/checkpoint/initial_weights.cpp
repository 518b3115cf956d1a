#include "actors/training/checkpoint/initial_weights.hpp"

#include <fmt/format.h>

#include "actors/training/checkpoint/checkpoint.hpp"
#include "model/weights/peft_folder.hpp"
#include "model/weights/stored_model.hpp"

namespace pipetrain {

std::shared_ptr<const WeightSource> base_weights(const ModelSettings& model, std::vector<std::string>& notes,
                                                 const TrainJob& job) {
  const ModelConfig config = base_model(job.config);  // the names and shapes of its tensors are those of the files
  if (!model.load_weights) return random_weights(config, job.samples.seed);
  verify_weights_of_checkpoint(model.name);
  WeightReading reading{.cut = {.wanted = model.layers.has_value(), .setting = "layers"}};
  if (job.config.classifies() && !read_stored_config(model.name).classifies()) {
    reading.new_head = job.samples.seed;
    notes.push_back(
        fmt::format("the head for {} classes is new and initialised with seed {}", job.config.outputs(), *reading.new_head));
  }
  return stored_weights(config, model.name, reading);
}

std::shared_ptr<const WeightSource> with_initial_adapter(const ModelSettings& model, const TrainJob& job,
                                                         std::shared_ptr<const WeightSource> base) {
  if (!job.config.adapter.exists()) return base;
  std::shared_ptr<const WeightSource> trained;
  if (!model.adapter.folder.empty())
    trained = peft_weights(job.config, model.adapter.folder);
  else
    trained = new_adapter_weights(job.config, base, job.samples.seed);
  return adapted_weights(std::move(base), std::move(trained));
}

}  // namespace pipetrain
