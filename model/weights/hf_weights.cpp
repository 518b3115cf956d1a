// Reads the weights of a Hugging Face folder.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "core/error.hpp"
#include "model/families/family.hpp"
#include "model/parameters/parameter_slice.hpp"
#include "model/weights/bitsandbytes_tensors.hpp"
#include "model/weights/expert_stacks.hpp"
#include "model/weights/finite_values.hpp"
#include "model/weights/fp8_block_tensors.hpp"
#include "model/weights/hf_tensors.hpp"
#include "model/weights/peft/peft_config.hpp"
#include "model/weights/piecewise_weights.hpp"
#include "model/weights/tied_head.hpp"
#include "model/weights/weights.hpp"

namespace pipetrain {
namespace {

namespace fs = std::filesystem;

// Returns "tensor NAME", or "tensor NAME and 8 more".
std::string tensor_and_more(const std::string& name, std::size_t count) {
  return count == 1 ? fmt::format("tensor {}", name) : fmt::format("tensor {} and {} more", name, count - 1);
}

// The source of the output head's tensors.
struct HeadSource {
  std::unique_ptr<WeightSource> new_head;  // for tensors of the head that the files lack; may be null
  bool embedding_is_head = false;          // true when files may hold the embedding under the head's name
};

class HfWeights : public WeightSource {
 public:
  // faults: gets the text of every error of the tensors, where it is not null; else the first is thrown.
  HfWeights(const ModelConfig& config, const fs::path& folder, HeadSource head, const LayerCut& cut,
            std::vector<std::string>* faults = nullptr)
      : names_(spec_of(config.family).names),
        new_head_(std::move(head.new_head)),
        tensors_(spec_of(config.family), folder),
        faults_(faults) {
    if (const ExpertNames* experts = spec_of(config.family).experts)
      experts->stacked ? static_cast<void>(stacks_.emplace(config, tensors_)) : tensors_.split_experts(*experts);
    if (*spec_of(config.family).read_quantization != 0) fp8_.emplace(tensors_);
    if (head.embedding_is_head) find_tied_embedding(config);
    if (is_nf4(config.base_form)) packed_.emplace(tensors_);
    if (new_head_) tensors_.forget(names_.head);
    check_tensors(config);
    for (const SharedCopy& copy : shared_copies(config)) known_.insert(copy.name);
    collect([&] { check_shared_copies(config, tensors_); });
    check_nothing_is_left(config, cut);
    collect([&] { tensors_.check_coverage(); });
  }

  void load(const Parameter& parameter, float* out) const override {
    if (is_packed(parameter.name)) return packed_->read_floats(parameter, out);
    const std::span values(out, static_cast<std::size_t>(parameter.local.elements()));
    if (is_stacked(parameter.name)) {
      stacks_->load(parameter, out);
      return check_finite(values, stacks_->path(parameter.name), parameter.name);
    }
    if (is_fp8(parameter.name)) {
      fp8_->load(parameter, out);
      return check_finite(values, fp8_->path(parameter.name), parameter.name);
    }
    const HfTensors::Location* const location = tensors_.find(parameter.name);
    if (location == nullptr && is_new(parameter.name)) return new_head_->load(parameter, out);
    if (location == nullptr) refuse_missing(parameter.name);
    location->check(parameter.full);
    read_slice(parameter, out, [&](std::int64_t first, std::int64_t count, float* to) { location->read(first, count, to); });
    check_finite(values, location->file->path(), location->name);
  }
  bool load_quantised(const Parameter& parameter, const QuantisedLayout& layout, std::byte* out) const override {
    if (!is_packed(parameter.name) || packed_->form(parameter.name) != layout.form) return false;
    packed_->read(parameter, layout, out);
    return true;
  }

 private:
  template <class Check>
  void collect(const Check& check) const {
    try {
      check();
    } catch (const Error& error) {
      if (!faults_) throw;
      faults_->push_back(error.what());
    }
  }

  bool is_packed(const std::string& name) const { return packed_ && packed_->has(name); }
  bool is_fp8(const std::string& name) const { return fp8_ && fp8_->has(name); }
  bool is_stacked(const std::string& name) const { return stacks_ && stacks_->has(name); }
  bool is_new(const std::string& name) const { return new_head_ && name == classifier_head; }

  [[noreturn]] void refuse_missing(const std::string& name) const {
    const char* hint = name == names_.head ? "; if the model's embeddings are tied, let config.json say tie_word_embeddings"
                       : name == classifier_head ? "; config.json says that the model classifies: give weights with this head"
                                                 : "; give the weights and the config.json of one model";
    throw Error(ErrorKind::input,
                fmt::format("{}: tensor {} is missing{}", tensors_.where().string(), tensors_.name_in_files(name), hint));
  }

  // A tied checkpoint may hold its one matrix under the head's name, or under both names.
  void find_tied_embedding(const ModelConfig& config) {
    const HfTensors::Location* const head = tensors_.find(names_.head);
    if (head == nullptr) return;
    if (!new_head_ && has_own_head(config, tensors_))
      throw Error(ErrorKind::input, fmt::format("{}: tensor {} differs from {}, and config.json ties them; let it say "
                                                "tie_word_embeddings: false",
                                                head->file->path().string(), names_.head, names_.embedding));
    tensors_.add_name(names_.embedding, *head);
    tensors_.forget(names_.head);
  }

  // Other programs add rows to the tables of a vocabulary, so that more devices can divide it.
  void check_vocabulary(const ModelConfig& config, const NamedShape& tensor, const HfTensors::Location& location) const {
    const bool has_vocabulary = tensor.name == names_.embedding || tensor.name == names_.head;
    const auto& shape = location.file->entries().at(location.name).shape;
    if (!has_vocabulary || shape.size() != 2 || shape[0] <= config.vocabulary || shape[1] != config.hidden) return;
    throw Error(ErrorKind::input,
                fmt::format("{}: tensor {} has {} rows, and the vocabulary of config.json {}; if the others are padding, let "
                            "vocab_size be {}",
                            location.file->path().string(), location.name, shape[0], config.vocabulary, shape[0]));
  }

  // Checks that every tensor of the model is there, with the right shape.
  void check_tensors(const ModelConfig& config) {
    for (const NamedShape& tensor : logical_tensors(config)) {
      known_.insert(tensor.name);
      const HfTensors::Location* const location = tensors_.find(tensor.name);
      if (is_stacked(tensor.name) || (location == nullptr && is_new(tensor.name))) continue;
      collect([&] {
        if (is_packed(tensor.name)) return packed_->check(tensor.name, tensor.shape);
        if (is_fp8(tensor.name)) return fp8_->check(tensor.name, tensor.shape);
        if (location == nullptr) refuse_missing(tensor.name);
        check_vocabulary(config, tensor, *location);
        location->check(tensor.shape);
      });
    }
  }

  // Checks that the files hold nothing that the model would leave unread, except layers that were cut off on purpose, and those
  // of a further prediction that the run does not train.
  void check_nothing_is_left(const ModelConfig& config, const LayerCut& cut) const {
    std::vector<std::string> foreign;
    std::vector<std::pair<std::int64_t, std::string>> beyond;
    for (const auto& [name, location] : tensors_.all()) {
      if (known_.contains(name) || tensors_.is_recomputed(name)) continue;
      const std::int64_t layer = layer_of(name, names_.layers);
      if (layer >= config.computed_layers() && predicts_further(tensors_, names_.layers, layer)) continue;
      if (layer < config.computed_layers()) {
        foreign.push_back(name);
      } else {
        beyond.emplace_back(layer, name);
      }
    }
    for (const std::string& name : foreign)
      collect([&] { refuse_foreign_tensor(*tensors_.find(name), faults_ ? 1 : foreign.size()); });
    if (!beyond.empty() && !cut.wanted)
      collect([&] { refuse_layers(config, std::min_element(beyond.begin(), beyond.end())->second, beyond.size(), cut); });
  }
  [[noreturn]] static void refuse_foreign_tensor(const HfTensors::Location& location, std::size_t count) {
    throw Error(ErrorKind::input,
                fmt::format("{}: {} {} not part of the model that config.json describes; give the weights and "
                            "the config.json of one model",
                            location.file->path().string(), tensor_and_more(location.name, count), count == 1 ? "is" : "are"));
  }
  [[noreturn]] void refuse_layers(const ModelConfig& config, const std::string& first, std::size_t count,
                                  const LayerCut& cut) const {
    const HfTensors::Location& location = *tensors_.find(first);
    const std::string file = location.file->path().string(), tensors = tensor_and_more(location.name, count);
    if (cut.setting == nullptr)
      throw Error(ErrorKind::input,
                  fmt::format("{}: {} {} of layers beyond the {} that config.json gives; correct config.json, "
                              "or give the weights and the config.json of one model",
                              file, tensors, count == 1 ? "is" : "are", config.layers));
    throw Error(ErrorKind::input, {cut.setting, std::to_string(config.layers)},
                fmt::format("is not given, and {} has {} of layers beyond the {} that config.json gives; give it to keep the "
                            "first {} alone, or correct config.json",
                            file, tensors, config.layers, config.layers));
  }

  FamilyNames names_;
  std::unique_ptr<WeightSource> new_head_;  // may be null
  HfTensors tensors_;
  std::optional<BitsandbytesTensors> packed_;
  std::optional<ExpertStacks> stacks_;
  std::optional<Fp8BlockTensors> fp8_;
  std::set<std::string> known_;
  std::vector<std::string>* faults_;  // may be null; only used while it is constructed
};

// Reads the weights of a checkpoint, whose ranks' files replace those of whole tensors.
class CheckpointWeights : public WeightSource {
 public:
  // new_head: may be null, see hf_weights().
  CheckpointWeights(const fs::path& folder, std::unique_ptr<WeightSource> new_head) : new_head_(std::move(new_head)) {
    ModelConfig config = read_hf_config(folder);
    if (config.mtp.layers > 0) config.mtp.loss = 1;  // a checkpoint says so only if its run trained the further layer
    weights_ = piecewise_weights(config, rank_files(folder));
    if (!weights_)
      throw Error(ErrorKind::input, fmt::format("{}: its files hold no weights; take another checkpoint", folder.string()));
  }
  void load(const Parameter& parameter, float* out) const override {
    const bool is_new = new_head_ && parameter.name == classifier_head;
    (is_new ? *new_head_ : *weights_).load(parameter, out);
  }

 private:
  std::unique_ptr<WeightSource> new_head_;
  std::shared_ptr<const WeightSource> weights_;
};

// Returns true if the files use the embedding as the head too. With a new head `config` is no longer tied, so
// the files decide.
bool embedding_is_head(const ModelConfig& config, const fs::path& folder, bool new_head) {
  return config.tied_embeddings || (new_head && read_hf_config(folder).tied_embeddings);
}

}  // namespace

std::unique_ptr<WeightSource> hf_weights(const ModelConfig& config, const fs::path& folder, const WeightReading& reading) {
  auto new_head = reading.new_head ? random_weights(config, *reading.new_head) : nullptr;
  std::error_code ignored;
  const bool of_checkpoint = !rank_files(folder).empty();
  if (of_checkpoint && fs::exists(folder / "model.safetensors", ignored))
    throw Error(ErrorKind::input,
                fmt::format("{}: has model.safetensors next to a checkpoint's rank-*.safetensors; keep those in a folder of "
                            "their own",
                            folder.string()));
  if (of_checkpoint && fs::exists(folder / peft_config_file, ignored))
    throw Error(
        ErrorKind::input,
        fmt::format("{}: this checkpoint holds adapters alone, not a whole model; give their base as the model, and the "
                    "checkpoint as the one to continue from, or merge them into a model with export",
                    folder.string()));
  if (of_checkpoint) return std::make_unique<CheckpointWeights>(folder, std::move(new_head));
  const bool tied = embedding_is_head(config, folder, new_head != nullptr);
  return std::make_unique<HfWeights>(config, folder, HeadSource{std::move(new_head), tied}, reading.cut);
}

std::vector<std::string> weight_faults(const ModelConfig& config, const fs::path& folder) {
  std::vector<std::string> faults;
  try {
    if (rank_files(folder).empty())
      HfWeights(config, folder, HeadSource{nullptr, config.tied_embeddings}, {}, &faults);
    else
      hf_weights(config, folder);
  } catch (const Error& error) {
    faults.emplace_back(error.what());
  }
  return faults;
}

std::vector<NamedShape> logical_tensors(const ModelConfig& config) {
  std::vector<NamedShape> tensors;
  for (const Parameter& parameter : layout_parameters(config, {blocks_of(config)}, 0, 1).parameters) {
    const bool another_slice = !tensors.empty() && tensors.back().name == parameter.name;
    if (!parameter.tied_copy && !another_slice) tensors.push_back({parameter.name, parameter.full, parameter.group});
  }
  return tensors;
}

}  // namespace pipetrain
