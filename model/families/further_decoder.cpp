#include "model/families/further_decoder.hpp"

#include <fmt/format.h>

#include <string>

#include "model/families/decoder.hpp"

namespace pipetrain {
namespace {

std::string further_layer(const ModelConfig& config) { return fmt::format("{}{}.", decoder_names.layers, config.layers); }

}  // namespace

// transformers writes either key for the same number.
void read_further_prediction(const HfConfigReader& config, ModelConfig& model) {
  for (const char* const key : {further_layers_key, "num_mtp_layers"}) {
    if (!config.has(key)) continue;
    const std::int64_t layers = config.whole(key).value_or(-1);
    if (layers < 0 || layers > most_layers) config.refuse_value(key, "a number of layers, 0 or more");
    model.mtp.layers = layers;
    return;
  }
}

// Every rank has the whole matrix that joins the two, because its inputs are whole rows.
std::vector<TensorSpec> further_prediction_tensors(const ModelConfig& config) {
  using enum TensorRole;
  const std::string layer = further_layer(config);
  return {norm_tensor(norm_weight, "model.norm", config.hidden),
          {.role = next_token_table,
           .name = decoder_names.embedding,
           .shape = {config.vocabulary, config.hidden},
           .split = Split::rows,
           .tied_copy = true},
          norm_tensor(next_token_norm_weight, layer + "enorm", config.hidden),
          norm_tensor(hidden_norm_weight, layer + "hnorm", config.hidden),
          {.role = join_weight, .name = layer + "eh_proj.weight", .shape = {config.hidden, 2 * config.hidden}}};
}

std::vector<TensorSpec> head_tensors_of_two(const ModelConfig& config) {
  return {norm_tensor(TensorRole::norm_weight, further_layer(config) + "shared_head.norm", config.hidden),
          output_tensor(config, decoder_names)};
}

}  // namespace pipetrain
