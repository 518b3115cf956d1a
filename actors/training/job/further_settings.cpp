#include "actors/training/job/further_settings.hpp"

#include <fmt/format.h>

#include "core/error.hpp"

namespace pipetrain {

void set_further_prediction(const std::string& model, double weight, ModelConfig& config) {
  if (weight == 0) return;
  const auto refuse = [&](const std::string& why) {
    throw Error(ErrorKind::input, {"mtp-loss", fmt::format("{}", weight)}, why);
  };
  if (config.mtp.layers == 0)
    refuse(fmt::format(
        "the model {} has no layer that predicts a token after the next one (num_nextn_predict_layers, of DeepSeek-V3 "
        "with the weights of all its layers); leave it out",
        model));
  if (config.mtp.layers > 1)
    refuse(fmt::format("the model {} has {} layers that predict later tokens, and more than one is not built yet; leave it out",
                       model, config.mtp.layers));
  if (config.tied_embeddings) refuse("a further prediction beside tied embeddings is not built yet; leave it out");
  config.mtp.loss = weight;
}

}  // namespace pipetrain
