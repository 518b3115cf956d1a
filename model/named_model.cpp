#include "model/named_model.hpp"

#include <fmt/format.h>

#include <utility>

#include "core/counted.hpp"
#include "core/error.hpp"
#include "model/weights/stored_model.hpp"

namespace pipetrain {

ModelConfig named_model(const std::string& model, std::optional<std::int64_t> layers) {
  ModelConfig config = names_stored_model(model) ? read_stored_config(model) : preset_config(model);
  if (layers && *layers > config.layers)
    throw Error(
        ErrorKind::input, {"layers", std::to_string(*layers)},
        fmt::format("the model {} has {}; give as many or fewer, or leave it out", model, counted(config.layers, "layer")));
  return layers ? first_layers(std::move(config), *layers) : config;
}

}  // namespace pipetrain
