// SmolLM3: in some layers, usually each fourth, queries and keys do not rotate; these may attend within a window.
#include <fmt/format.h>

#include "model/families/decoder.hpp"
#include "model/families/keys/layer_type_keys.hpp"
#include "model/families/keys/rope_keys.hpp"

namespace pipetrain {
namespace {

constexpr double smollm3_theta = 2e6;
constexpr std::int64_t smollm3_interval = 4;
constexpr const char* rotation_key = "no_rope_layers";  // in spite of its name, a 1 says that the layer rotates

// By layer. Hugging Face reads the list's first entries, and where it is absent lets all layers rotate but each last one of
// no_rope_layer_interval.
std::vector<bool> read_rotations(const HfConfigReader& config, std::int64_t layers) {
  const std::int64_t interval =
      config.has("no_rope_layer_interval") ? config.count("no_rope_layer_interval") : smollm3_interval;
  std::vector<bool> rotates;
  if (!config.has(rotation_key)) {
    for (std::int64_t layer = 0; layer < layers; ++layer) rotates.push_back((layer + 1) % interval != 0);
    return rotates;
  }
  const auto refuse = [&] {
    config.refuse_value(rotation_key,
                        fmt::format("a list of a 0 or a 1 for each of the {} layers, 1 where it rotates", layers));
  };
  const Json& list = config.value(rotation_key);
  if (!list.is_array() || static_cast<std::int64_t>(list.size()) < layers) refuse();
  for (const Json& entry : list) {
    const auto number = entry.whole();
    if (!number || (*number != 0 && *number != 1)) refuse();
    rotates.push_back(*number == 1);
  }
  rotates.resize(static_cast<std::size_t>(layers));
  return rotates;
}

// Where layer_types is absent, the layers that do not rotate are those within the window.
void read_smollm3_layers(const HfConfigReader& config, ModelConfig& model) {
  const std::vector<bool> rotates = read_rotations(config, model.layers);
  const std::int64_t given = read_window(config, 0), window = config.flag_or("use_sliding_window", false) ? given : 0;
  const bool lists_types = config.has("layer_types");
  if (lists_types) read_windows(config, {.window = window}, model);
  model.layer_types.resize(rotates.size());
  for (std::size_t layer = 0; layer < rotates.size(); ++layer) {
    LayerType& type = model.layer_types[layer];
    type.rotates = rotates[layer];
    if (!lists_types) type.windowed = !type.rotates && window > 0 && window < model.max_positions;
  }
  if (!lists_types) model.window = window;
  drop_idle_windows(model);
}

void read_smollm3(const HfConfigReader& config, ModelConfig& model) {
  read_decoder(config, model);
  read_smollm3_layers(config, model);
  model.rope.theta = smollm3_theta;
  read_rope(config, model);
  read_biases(config, model);
}

void write_smollm3(const ModelConfig& config, Json& text) {
  write_decoder(config, text);
  write_windows(config, text);
  write_biases(config, text);
  text["use_sliding_window"] = config.window > 0;
  text[rotation_key] = Json::array({});
  for (std::int64_t layer = 0; layer < config.layers; ++layer) text[rotation_key].push_back(config.rotates(layer) ? 1 : 0);
}

}  // namespace

FamilySpec smollm3_family() {
  return {.name = "SmolLM3",
          .model_type = "smollm3",
          .architecture = "SmolLM3ForCausalLM",
          .classifier = "SmolLM3ForSequenceClassification",
          .defaults = {.family = Family::smollm3, .tied_embeddings = true},
          .bos_id = 128000,
          .eos_id = 128001,
          .pad_id = 128004,
          .has_windows = true,
          .read = read_smollm3,
          .write = write_smollm3};
}

}  // namespace pipetrain
