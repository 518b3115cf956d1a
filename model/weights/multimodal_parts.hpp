// The parts of a multimodal model besides its language model, such as the vision tower, or the layers of a language model that
// predict later tokens, where the run does not train them (FurtherPrediction). Training leaves them unchanged, and saved models
// get them as they are: the tensors byte for byte, and what config.json says of them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "model/config/config.hpp"
#include "model/families/family.hpp"
#include "model/weights/hf_tensors.hpp"
#include "model/weights/safetensors.hpp"

namespace pipetrain {

// The file of a checkpoint that records the parts: the folder that has them, its config.json, and a checksum of each tensor.
// The tensors themselves are not copied into checkpoints.
inline constexpr const char* multimodal_file = "multimodal.json";

// Keeps the folder's files open, so that they may be moved or deleted while a run goes on. Immutable and thread-safe.
class MultimodalParts {
 public:
  struct Part {
    FileTensor tensor;
    std::uint64_t checksum = 0;           // of its bytes
    std::uint64_t element_bytes() const;  // of one of its elements; 0 where it has none
    bool operator==(const Part& other) const;
  };

  // Opens the folder and reads the parts' tensors. config: that of the folder. Throws Error(input).
  MultimodalParts(const std::filesystem::path& folder, Json config);

  const std::filesystem::path& folder() const noexcept { return folder_; }
  bool is_multimodal() const noexcept { return further_layers_ == 0; }
  const std::vector<Part>& parts() const noexcept { return parts_; }
  // Returns config.json of the whole model, with this language model, whose weights are saved in this type.
  Json config(const ModelConfig& language_model, SavedType type) const;
  // Returns the name that the folder's files give a tensor of the language model.
  std::string name_in_files(const std::string& name) const { return tensors_.name_in_files(name); }
  // Writes a part as the writer's next tensor. Throws Error(input) when the file has changed since it was opened.
  void copy(const Part& part, SafetensorsWriter& writer) const;
  // Returns the text of a checkpoint's multimodal_file.
  std::string record() const;

 private:
  std::filesystem::path folder_;  // absolute
  Json config_;
  std::int64_t further_layers_ = 0;  // that config.json gives; 0 for a multimodal model
  HfTensors tensors_;
  std::vector<Part> parts_;
};

// Returns the parts of a stored model; null for a model that has none, or no weights, and where the files are in 8 bits with
// scales, which saved models are not. Those of a checkpoint are read from the folder that it records, or from `moved_to`, where
// that is not empty. Throws Error(input), also where that folder's parts are not those that the checkpoint records.
std::shared_ptr<const MultimodalParts> multimodal_parts(const std::filesystem::path& model,
                                                        const std::filesystem::path& moved_to = {});

}  // namespace pipetrain
