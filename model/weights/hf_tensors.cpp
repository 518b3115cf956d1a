#include "model/weights/hf_tensors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

#include "core/error.hpp"
#include "model/families/multimodal_config.hpp"

namespace pipetrain {

// The beginnings by which the files of a multimodal model name the tensors of its language model and its head.
struct LanguageModelNames {
  const char *model, *head;
};

namespace {

// The names of the first files, which transformers 4 wrote, and those of its classes today.
constexpr LanguageModelNames language_model_names[] = {{"language_model.model.", "language_model.lm_head."},
                                                       {"model.language_model.", "lm_head."}};
constexpr const char *own_model = "model.", *own_head = "lm_head.";

// Returns the name with another beginning; nothing where it does not begin so.
std::optional<std::string> with_beginning(const std::string& name, std::string_view old, std::string_view other) {
  return name.starts_with(old) ? std::optional(std::string(other) + name.substr(old.size())) : std::nullopt;
}

namespace fs = std::filesystem;

// A shard must have the tensors that its index says it has, and no others except those that are recomputed.
void check_shard(const SafetensorsReader& shard, const WeightMap& map, const fs::path& index, const HfTensors& tensors) {
  const std::string own = shard.path().filename().string();
  for (const auto& [name, entry] : shard.entries()) {
    const auto listed = map.find(name);
    if (listed == map.end() && !tensors.is_recomputed(name))
      throw Error(ErrorKind::input,
                  fmt::format("{}: has tensor {}, which {} does not list; correct the index, or copy both again",
                              shard.path().string(), name, index.filename().string()));
    if (listed != map.end() && listed->second != own)
      throw Error(ErrorKind::input,
                  fmt::format("{}: tensor {} is both in {} and in {}; get the shards of one model", index.string(), name,
                              std::min(own, listed->second), std::max(own, listed->second)));
  }
}

}  // namespace

HfTensors::HfTensors(const FamilySpec& family, fs::path folder) : names_(family.names), folder_(std::move(folder)) {
  const WeightFiles found = find_weight_files(folder_);
  found.index.empty() ? add_whole_files(found.files) : add_indexed(found.index);
  if (family.multimodal && read_multimodal_config(folder_))
    separate_parts(*family.multimodal);
  else
    complete_names();
}

const HfTensors::Location* HfTensors::find(const std::string& name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

bool HfTensors::is_recomputed(const std::string& name) const {
  return std::any_of(names_.recomputed.begin(), names_.recomputed.end(),
                     [&](const char* end) { return end != nullptr && name.ends_with(end); });
}

void HfTensors::check_coverage() const {
  for (const auto& [name, file] : files_) file.check_coverage();
}

const fs::path& HfTensors::where() const { return files_.size() == 1 ? files_.begin()->second.path() : folder_; }

const SafetensorsReader& HfTensors::open(const std::string& name) {
  const auto found = files_.find(name);
  return found != files_.end() ? found->second : files_.try_emplace(name, folder_ / name).first->second;
}

void HfTensors::add_whole_files(const std::vector<std::string>& files) {
  for (const std::string& name : files) {
    const SafetensorsReader& file = open(name);
    for (const auto& [tensor, entry] : file.entries()) {
      const auto [location, added] = tensors_.emplace(tensor, Location{&file, tensor});
      if (!added)
        throw Error(ErrorKind::input,
                    fmt::format("{}: tensor {} is both in {} and in {}; remove the file that does not belong there",
                                folder_.string(), tensor, location->second.file->path().filename().string(), name));
    }
  }
}

void HfTensors::add_indexed(const fs::path& index) {
  const WeightMap map = read_weight_index(index);
  for (const auto& [name, shard] : map) {
    const SafetensorsReader& file = open(shard);
    if (!file.entries().contains(name)) {
      throw Error(ErrorKind::input, fmt::format("{}: tensor {} is missing, though {} says it is there; copy both again",
                                                file.path().string(), name, index.filename().string()));
    }
    tensors_.emplace(name, Location{&file, name});
  }
  for (const auto& [name, file] : files_) check_shard(file, map, index, *this);
}

void HfTensors::Location::check(const Shape& shape) const {
  file->check(name, stacked ? stacked->all : shape);
  if (stacked && stacked->shape != shape)
    throw Error(ErrorKind::input,
                fmt::format("{}: the matrices in tensor {} have shape {}, and config.json asks for {}; give the "
                            "weights and the config.json of one model",
                            file->path().string(), name, to_string(stacked->shape), to_string(shape)));
}

void HfTensors::split_stack(const Location& stack, const std::string& prefix, const std::vector<const char*>& matrices) {
  const auto& sizes = stack.file->entries().at(stack.name).shape;
  const auto count = static_cast<std::int64_t>(matrices.size());
  if (sizes.size() != 3 || sizes[1] % count != 0) return;  // reported as a tensor that is not the model's
  const Shape shape{sizes[1] / count, sizes[2]};
  for (std::int64_t expert = 0; expert < sizes[0]; ++expert) {
    for (std::int64_t matrix = 0; matrix < count; ++matrix) {
      const Stacked stacked{{sizes[0], sizes[1], sizes[2]}, (expert * count + matrix) * shape.elements(), shape};
      add_name(fmt::format("{}{}.{}.weight", prefix, expert, matrices[static_cast<std::size_t>(matrix)]),
               {stack.file, stack.name, stacked});
    }
  }
}

// transformers calls the block "mlp" in memory, whatever the family's files call it.
void HfTensors::split_experts(const ExpertNames& names) {
  constexpr std::string_view block = ".mlp.", gate_up = "experts.gate_up_proj", down = "experts.down_proj";
  const std::map<std::string, Location> all = tensors_;
  for (const auto& [name, location] : all) {
    const std::size_t at = name.find(block);
    if (at == std::string::npos) continue;
    const std::string prefix = name.substr(0, at + 1) + names.block, rest = name.substr(at + block.size());
    if (rest == gate_up || rest == down) {
      split_stack(location, prefix + "experts.", rest == down ? std::vector{names.down} : std::vector{names.gate, names.up});
      forget(name);
    } else if (prefix + rest != name) {
      add_name(prefix + rest, location);
      forget(name);
    }
  }
}

void HfTensors::set_layers_apart(std::int64_t first) {
  for (const auto& [name, location] : tensors_) {
    const std::int64_t layer = layer_of(name, names_.layers);
    if (layer >= first && predicts_further(*this, names_.layers, layer)) other_parts_.emplace(name, location);
  }
  for (const auto& [name, location] : other_parts_) tensors_.erase(name);
}

// Gives the language model's tensors the names that they have in the files of a language model.
void HfTensors::separate_parts(const MultimodalSpec& spec) {
  const auto is_other_part = [&](std::string_view name) {
    if (name.starts_with(own_model)) name.remove_prefix(std::string_view(own_model).size());
    return std::any_of(spec.part_prefixes.begin(), spec.part_prefixes.end(),
                       [&](const char* prefix) { return name.starts_with(prefix); });
  };
  const auto uses = [&](const LanguageModelNames& names) {
    const auto first = tensors_.lower_bound(names.model);
    return first != tensors_.end() && first->first.starts_with(names.model);
  };
  language_names_ = std::find_if(std::begin(language_model_names), std::end(language_model_names), uses);
  if (language_names_ == std::end(language_model_names)) language_names_ = &language_model_names[1];
  std::map<std::string, Location> own;
  for (auto& [name, location] : tensors_) {
    auto inside = with_beginning(name, language_names_->model, own_model);
    if (!inside) inside = with_beginning(name, language_names_->head, own_head);
    if (!inside && is_other_part(name)) {
      other_parts_.emplace(name, std::move(location));
    } else if (const auto [other, added] = own.emplace(inside.value_or(name), location); !added) {
      throw Error(ErrorKind::input, fmt::format("{}: tensors {} and {} are the same one of the language model; keep one",
                                                folder_.string(), other->second.name, name));
    }
  }
  tensors_ = std::move(own);
}

std::string HfTensors::name_in_files(const std::string& name) const {
  if (language_names_ == nullptr) return name;
  if (auto outside = with_beginning(name, own_model, language_names_->model)) return *outside;
  return with_beginning(name, own_head, language_names_->head).value_or(name);
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

// Files that were saved from a model without its head omit the prefix of the tensors' names ("transformer.", "model.").
void HfTensors::complete_names() {
  const std::string prefix = names_.optional_prefix;
  const std::string bare = std::string(names_.embedding).substr(prefix.size());
  if (prefix.empty() || !tensors_.contains(bare)) return;
  std::map<std::string, Location> completed;
  for (auto& [name, location] : tensors_) {
    const bool is_head = name == names_.head || name == classifier_head;
    completed.emplace(is_head ? name : prefix + name, std::move(location));
  }
  tensors_ = std::move(completed);
}

}  // namespace pipetrain
