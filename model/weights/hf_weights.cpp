// Reading a Hugging Face folder's weights: one safetensors file, or shards.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <set>

#include "core/error.hpp"
#include "files/file_pieces.hpp"
#include "files/json.hpp"
#include "model/families/family.hpp"
#include "model/weights/parameter_slice.hpp"
#include "model/weights/piecewise_weights.hpp"
#include "model/weights/safetensors.hpp"
#include "model/weights/weights.hpp"

namespace pipetrain {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t most_index_bytes = 100'000'000;

// Which of the folder's files has which tensor.
using WeightMap = std::map<std::string, std::string>;

// Takes the weight_map out of an index, whose other members say nothing that is needed.
class IndexReader : public JsonEvents {
 public:
  void open(JsonKind kind) override {
    if (depth_ == 2 && in_map_) refuse_file();
    ++depth_;
    in_map_ = in_map_ || (depth_ == 2 && key_ == map_key && kind == JsonKind::object);
    found_ = found_ || in_map_;
  }
  void close() override {
    if (--depth_ == 1) in_map_ = false;
  }
  void key(std::string&& name, std::size_t line) override {
    line_ = line;
    if (depth_ == 1 && found_ && name == map_key) throw JsonFault(line, "key \"weight_map\" appears twice; keep one");
    if (depth_ == 1 || in_map_) key_ = std::move(name);
  }
  void value(Json&& value) override {
    if (!in_map_) return;
    if (!value.is_string()) refuse_file();
    auto name = value.as_string();
    if (name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos ||
        name.find('\0') != std::string::npos) {
      throw JsonFault(
          line_, fmt::format("tensor {}: file {} is not the name of a file in this folder; correct the index, or copy it again",
                             key_, value.dump({.ascii = true})));
    }
    if (!map_.emplace(key_, std::move(name)).second)
      throw JsonFault(line_, fmt::format("tensor {} appears twice; keep one", key_));
  }
  bool has_map() const { return found_; }
  WeightMap take() { return std::move(map_); }

 private:
  static constexpr const char* map_key = "weight_map";
  [[noreturn]] void refuse_file() const {
    throw JsonFault(line_, fmt::format("tensor {}: its file is not a name; correct the index, or copy it again", key_));
  }

  WeightMap map_;
  std::string key_;
  std::size_t line_ = 1;
  int depth_ = 0;
  bool in_map_ = false, found_ = false;
};

WeightMap read_index(const fs::path& path) {
  const InputFile file(path);
  if (file.size() > most_index_bytes) {
    throw Error(ErrorKind::input, fmt::format("{}: {} bytes are more than the {} allowed; give the right file", path.string(),
                                              file.size(), most_index_bytes));
  }
  IndexReader index;
  read_json(pieces_of(file, 0, file.size()), {path.string()}, {.values = 2'000'000}, index);
  if (!index.has_map())
    throw Error(ErrorKind::input,
                fmt::format("{}: no \"weight_map\" object; correct the index, or copy it again", path.string()));
  return index.take();
}

[[noreturn]] void refuse_folder(const fs::path& folder, const std::string& what) {
  throw Error(ErrorKind::input, fmt::format("{}: {}", folder.string(), what));
}

// The N of "NAME-00002-of-0000N.safetensors", with the number cut out of the name; 0 for other names.
std::size_t shards_of(const std::string& name, std::string& without_number) {
  constexpr std::size_t tail = std::string_view("-00002-of-00004.safetensors").size();
  if (name.size() <= tail) return 0;
  const std::size_t at = name.size() - tail;
  const auto number = [&](std::size_t from) {
    std::size_t value = 0;
    const auto [end, error] = std::from_chars(name.data() + from, name.data() + from + 5, value);
    return error == std::errc() && end == name.data() + from + 5 ? value : 0;
  };
  if (name[at] != '-' || name.compare(at + 6, 4, "-of-") != 0 || number(at + 1) == 0) return 0;
  without_number = name.substr(0, at) + name.substr(at + 6);
  return number(at + 10);
}

// What holds the weights: an index of shards, or files that are read whole.
struct WeightFiles {
  fs::path index;
  std::vector<std::string> files;
};

// The names that Hugging Face writes come first; else what is there must be the weights without doubt.
WeightFiles find_weight_files(const fs::path& folder) {
  std::vector<std::string> files, indexes;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(".safetensors.index.json")) indexes.push_back(name);
    // A checkpoint's moments have the names of the weights.
    if (name.ends_with(".safetensors") && !name.starts_with("exp_avg")) files.push_back(name);
  }
  const auto has = [](const std::vector<std::string>& names, const char* name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  if (has(files, "model.safetensors")) return {{}, {"model.safetensors"}};
  if (has(indexes, "model.safetensors.index.json")) return {folder / "model.safetensors.index.json", {}};
  if (indexes.size() > 1)
    refuse_folder(folder, "has several *.safetensors.index.json files; name the right one model.safetensors.index.json");
  if (!indexes.empty()) return {folder / indexes.front(), {}};
  if (files.empty())
    refuse_folder(folder, "has no *.safetensors files; copy them too, or start from random weights: init random");

  std::set<std::string> sets;
  std::size_t shards = 1;
  for (const std::string& name : files) {
    std::string set = name;
    shards = std::max(shards, shards_of(name, set));
    sets.insert(set);
  }
  if (sets.size() > 1)
    refuse_folder(folder, "has several *.safetensors files and no index; name the one to read model.safetensors");
  if (files.size() < shards)
    refuse_folder(folder, fmt::format("has {} of its {} shards; get the others", files.size(), shards));
  return {{}, files};
}

// The N of "model.layers.N.", else -1.
std::int64_t layer_of(const std::string& name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return -1;
  std::int64_t layer = -1;
  const auto [end, error] = std::from_chars(name.data() + prefix.size(), name.data() + name.size(), layer);
  return error == std::errc() && end != name.data() + name.size() && *end == '.' ? layer : -1;
}

class HfWeights : public WeightSource {
 public:
  HfWeights(const ModelConfig& config, const fs::path& folder, std::unique_ptr<WeightSource> new_head)
      : folder_(folder), names_(spec_of(config.family).names), new_head_(std::move(new_head)) {
    open_files();
    complete_names();
    find_tied_embedding(config);
    if (new_head_) tensors_.erase(names_.head);
    check_model(config);
    for (const auto& [name, file] : files_) file.check_coverage();
  }

  void load(const Parameter& parameter, float* out) const override {
    const auto found = tensors_.find(parameter.name);
    if (found == tensors_.end() && is_new(parameter.name)) return new_head_->load(parameter, out);
    if (found == tensors_.end()) refuse_missing(parameter.name);
    const Place& place = found->second;
    place.file->check(place.name, parameter.full);
    read_slice(parameter, out,
               [&](std::int64_t first, std::int64_t count, float* to) { place.file->read(place.name, first, count, to); });
  }

 private:
  struct Place {
    const SafetensorsReader* file = nullptr;
    std::string name;  // in the file
  };

  bool is_new(const std::string& name) const { return new_head_ && name == classifier_head; }

  [[noreturn]] void refuse_missing(const std::string& name) const {
    const char* hint = name == names_.head ? "; if the model's embeddings are tied, let config.json say tie_word_embeddings"
                       : name == classifier_head ? "; config.json says that the model classifies: give weights with this head"
                                                 : "; give the weights and the config.json of one model";
    const fs::path& where = files_.size() == 1 ? files_.begin()->second.path() : folder_;
    throw Error(ErrorKind::input, fmt::format("{}: tensor {} is missing{}", where.string(), name, hint));
  }

  void open_files() {
    const WeightFiles found = find_weight_files(folder_);
    for (const std::string& name : found.files) {
      const SafetensorsReader& file = open(name);
      for (const auto& [tensor, entry] : file.entries()) {
        const auto [place, added] = tensors_.emplace(tensor, Place{&file, tensor});
        if (!added)
          refuse_folder(folder_, fmt::format("tensor {} is both in {} and in {}; remove the file that does not belong there",
                                             tensor, place->second.file->path().filename().string(), name));
      }
    }
    if (!found.index.empty()) open_shards(found.index);
  }
  void open_shards(const fs::path& index) {
    for (const auto& [name, shard] : read_index(index)) {
      const SafetensorsReader& file = open(shard);
      if (!file.entries().contains(name)) {
        throw Error(ErrorKind::input, fmt::format("{}: tensor {} is missing, though {} says it is there; copy both again",
                                                  file.path().string(), name, index.filename().string()));
      }
      tensors_.emplace(name, Place{&file, name});
    }
  }
  const SafetensorsReader& open(const std::string& name) {
    const auto found = files_.find(name);
    return found != files_.end() ? found->second : files_.try_emplace(name, folder_ / name).first->second;
  }

  // A tied checkpoint may name its one matrix as the head; one that has both is read as Hugging Face does, by the embedding.
  void find_tied_embedding(const ModelConfig& config) {
    if (!config.tied_embeddings && (!new_head_ || tensors_.contains(names_.embedding))) return;
    const auto head = tensors_.find(names_.head);
    if (head == tensors_.end()) return;
    tensors_.emplace(names_.embedding, head->second);
    tensors_.erase(head);
  }

  // Files of the model without its head name its tensors without what they are called in the whole.
  void complete_names() {
    const std::string prefix = names_.optional_prefix;
    const std::string bare = std::string(names_.embedding).substr(prefix.size());
    if (prefix.empty() || !tensors_.contains(bare)) return;
    std::map<std::string, Place> completed;
    for (auto& [name, place] : tensors_) completed.emplace(is_head(name) ? name : prefix + name, std::move(place));
    tensors_ = std::move(completed);
  }

  bool is_head(const std::string& name) const { return name == names_.head || name == classifier_head; }

  // Everything the model has is there as it must be, and nothing is there that the model would ignore.
  void check_model(const ModelConfig& config) const {
    std::set<std::string> known;
    for (const NamedShape& tensor : logical_tensors(config)) {
      const auto found = tensors_.find(tensor.name);
      if (found == tensors_.end() && is_new(tensor.name)) continue;
      if (found == tensors_.end()) refuse_missing(tensor.name);
      found->second.file->check(found->second.name, tensor.shape);
      known.insert(tensor.name);
    }
    for (const auto& [name, place] : tensors_) {
      const bool cut_layer = layer_of(name, names_.layers) >= config.layers;  // the model keeps fewer layers than the file
      // Old files keep what is computed from the configuration: frequencies, and causal masks.
      const bool derived =
          name.ends_with(".rotary_emb.inv_freq") || name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias");
      if (!known.contains(name) && !cut_layer && !derived) {
        throw Error(ErrorKind::input, fmt::format("{}: tensor {} is not part of the model that config.json describes; give "
                                                  "the weights and the config.json of one model",
                                                  place.file->path().string(), name));
      }
    }
  }

  fs::path folder_;
  FamilyNames names_;
  std::unique_ptr<WeightSource> new_head_;  // for what the files lack of it; may be null
  std::map<std::string, SafetensorsReader> files_;
  std::map<std::string, Place> tensors_;
};

// Those of a checkpoint, whose ranks' files lie in the place of whole tensors.
class CheckpointWeights : public WeightSource {
 public:
  // new_head: may be null, see hf_weights().
  CheckpointWeights(const fs::path& folder, std::unique_ptr<WeightSource> new_head) : new_head_(std::move(new_head)) {
    auto states = piecewise_states(read_hf_config(folder), rank_files(folder));
    weights_ = states["weights"];
    if (!weights_) refuse_folder(folder, "its files hold no weights; take another checkpoint");
  }
  void load(const Parameter& parameter, float* out) const override {
    const bool is_new = new_head_ && parameter.name == classifier_head;
    (is_new ? *new_head_ : *weights_).load(parameter, out);
  }

 private:
  std::unique_ptr<WeightSource> new_head_;
  std::shared_ptr<const WeightSource> weights_;
};

}  // namespace

std::unique_ptr<WeightSource> hf_weights(const ModelConfig& config, const fs::path& folder,
                                         std::optional<std::uint64_t> new_head) {
  auto head = new_head ? random_weights(config, *new_head) : nullptr;
  std::error_code ignored;
  const bool of_checkpoint = !rank_files(folder).empty();
  if (of_checkpoint && fs::exists(folder / "model.safetensors", ignored))
    refuse_folder(folder,
                  "has model.safetensors beside a checkpoint's rank-*.safetensors; keep those in a folder of their own");
  if (of_checkpoint) return std::make_unique<CheckpointWeights>(folder, std::move(head));
  return std::make_unique<HfWeights>(config, folder, std::move(head));
}

std::vector<NamedShape> logical_tensors(const ModelConfig& config) {
  std::vector<NamedShape> tensors;
  for (const Parameter& parameter : layout_parameters(config, {blocks_of(config)}, 0, 1).parameters) {
    const bool another_slice = !tensors.empty() && tensors.back().name == parameter.name;
    if (!parameter.tied_copy && !another_slice) tensors.push_back({parameter.name, parameter.full});
  }
  return tensors;
}

}  // namespace pipetrain
