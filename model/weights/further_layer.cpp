#include "model/weights/further_layer.hpp"

#include <fmt/format.h>

#include <charconv>

#include "core/error.hpp"
#include "model/weights/hf_tensors.hpp"
#include "model/weights/tied_head.hpp"

namespace pipetrain {

std::vector<SharedCopy> shared_copies(const ModelConfig& config) {
  if (!config.mtp.is_trained()) return {};
  const FamilyNames& names = spec_of(config.family).names;
  const std::string layer = fmt::format("{}{}.", names.layers, config.layers);
  return {{layer + "embed_tokens.weight", names.embedding}, {layer + "shared_head.head.weight", names.head}};
}

void check_shared_copies(const ModelConfig& config, const HfTensors& tensors) {
  const Shape shape{config.vocabulary, config.hidden};
  for (const SharedCopy& copy : shared_copies(config)) {
    const HfTensors::Location *const own = tensors.find(copy.name), *const of = tensors.find(copy.of);
    if (own == nullptr || of == nullptr) continue;
    own->check(shape);
    if (same_values(*own, *of, shape.elements())) continue;
    throw Error(ErrorKind::input,
                fmt::format("{}: tensor {} differs from {}, which a further prediction shares; give the weights of one model, "
                            "or leave this copy out",
                            own->file->path().string(), copy.name, copy.of));
  }
}

std::int64_t layer_of(const std::string& name, const std::string& prefix) {
  if (!name.starts_with(prefix)) return -1;
  std::int64_t layer = -1;
  const char* const end_of_name = name.data() + name.size();
  const auto [end, error] = std::from_chars(name.data() + prefix.size(), end_of_name, layer);
  return error == std::errc() && end != end_of_name && *end == '.' ? layer : -1;
}

bool predicts_further(const HfTensors& tensors, const std::string& prefix, std::int64_t layer) {
  return tensors.find(fmt::format("{}{}.eh_proj.weight", prefix, layer)) != nullptr;
}

}  // namespace pipetrain
