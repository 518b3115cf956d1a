// The tensors of a Hugging Face folder's weight files, by the names that its family gives them.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "model/families/family.hpp"
#include "model/weights/hf_weight_files.hpp"
#include "model/weights/safetensors.hpp"

namespace pipetrain {

struct LanguageModelNames;

class HfTensors {
 public:
  // One of the matrices of all experts that a file has as one tensor.
  struct Stacked {
    Shape all;               // of the file's tensor
    std::int64_t first = 0;  // element of the file's tensor
    Shape shape;             // of the one matrix
  };
  struct Location {
    const SafetensorsReader* file = nullptr;
    std::string name;  // in the file
    std::optional<Stacked> stacked = {};

    // As SafetensorsReader::check() and read().
    void check(const Shape& shape) const;
    void read(std::int64_t first, std::int64_t count, float* out) const {
      file->read(name, (stacked ? stacked->first : 0) + first, count, out);
    }
  };

  // Reads every header. Throws Error(input) naming file and tensor if a file is damaged, if two files hold the
  // same tensor, or if an index and its shards do not name the same tensors.
  HfTensors(const FamilySpec& family, std::filesystem::path folder);
  HfTensors(const HfTensors&) = delete;
  HfTensors& operator=(const HfTensors&) = delete;

  // Returns the tensors of the model, by name. In the folder of a multimodal model these are those of its language model.
  const std::map<std::string, Location>& all() const noexcept { return tensors_; }
  // Returns the tensors of a multimodal model's other parts, and those that set_layers_apart() has moved, by their names in the
  // files; none for other models.
  const std::map<std::string, Location>& other_parts() const noexcept { return other_parts_; }
  // Returns the name that the files give a tensor of the model, or would give it.
  std::string name_in_files(const std::string& name) const;
  // Returns null if there is none.
  const Location* find(const std::string& name) const;
  void forget(const std::string& name) { tensors_.erase(name); }
  // Moves the tensors of layers from `first` on that predict later tokens to the other parts.
  void set_layers_apart(std::int64_t first);
  // Adds a second name for a tensor, unless the name is taken.
  void add_name(const std::string& name, const Location& location) { tensors_.emplace(name, location); }

  // Names the matrices of each expert, where files have them stacked as transformers 5 has them in memory:
  // experts.gate_up_proj [experts, 2 x inner, hidden] and experts.down_proj [experts, hidden, inner].
  void split_experts(const ExpertNames& names);

  // Returns true for a tensor that old files store although it is computed from the configuration.
  bool is_recomputed(const std::string& name) const;
  // Throws unless the tensors of every file fill it; see SafetensorsReader::check_coverage().
  void check_coverage() const;
  // Returns the path that errors name for a missing tensor: the file if there is only one, else the folder.
  const std::filesystem::path& where() const;

 private:
  const SafetensorsReader& open(const std::string& name);
  void add_whole_files(const std::vector<std::string>& files);
  void add_indexed(const std::filesystem::path& index);
  void complete_names();
  void split_stack(const Location& stack, const std::string& prefix, const std::vector<const char*>& matrices);
  void separate_parts(const MultimodalSpec& spec);

  FamilyNames names_;
  std::filesystem::path folder_;
  std::map<std::string, SafetensorsReader> files_;
  std::map<std::string, Location> tensors_, other_parts_;
  const LanguageModelNames* language_names_ = nullptr;  // of a multimodal model
};

// Returns the number of the layer that the name of a tensor gives, behind `prefix`; -1 where it gives none.
std::int64_t layer_of(const std::string& name, const std::string& prefix);
// True for a layer of the files that predicts a token after the next one (FurtherPrediction).
bool predicts_further(const HfTensors& tensors, const std::string& prefix, std::int64_t layer);

}  // namespace pipetrain
