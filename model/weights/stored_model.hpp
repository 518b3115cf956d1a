// A model on disk, whoever wrote it: a Hugging Face folder, a checkpoint, or a model file of llm.c.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/config/config.hpp"
#include "model/weights/weights.hpp"

namespace pipetrain {

// Whether the name is one's rather than a preset's: a folder, or a file, unless a preset is called so.
bool names_stored_model(const std::string& name);
// Throws Error(input) naming the file; for what another program wrote in a form that is not read, with what turns it into a
// Hugging Face folder.
ModelConfig read_stored_config(const std::filesystem::path& model);
// For programs that load the weights too: returns `config`, in which the output head is tied to the embeddings only if the
// files hold no different head (tied_head.hpp). Where that changes the configuration, `notes` gets a line. Throws Error(input),
// also for weights that cannot be read and for those of other programs.
ModelConfig with_head_of_weights(ModelConfig config, const std::filesystem::path& model, std::vector<std::string>& notes);
// Of this configuration, which is the model's, or its first layers.
std::unique_ptr<WeightSource> stored_weights(const ModelConfig& config, const std::filesystem::path& model,
                                             const WeightReading& reading = {});

// What another program wrote and this one does not read, where it is known by its files: "is a checkpoint of Megatron-LM; ...",
// with what to do. Of what this program reads, and what it does not know, nothing.
std::optional<std::string> foreign_checkpoint(const std::filesystem::path& path);

}  // namespace pipetrain
