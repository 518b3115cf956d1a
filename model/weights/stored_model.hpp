// Reads a model on disk in any known format: a Hugging Face folder, a checkpoint, or a model file of llm.c.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/config/config.hpp"
#include "model/weights/weights.hpp"

namespace pipetrain {

// Returns true if the name is that of a stored model rather than a preset: a folder or a file, unless a preset has that name.
bool names_stored_model(const std::string& name);
// Throws Error(input) naming the file. For another program's format that is not read, the error says what
// converts it to a Hugging Face folder.
ModelConfig read_stored_config(const std::filesystem::path& model);
// For programs that load the weights too: returns `config`, in which the output head is tied to the embeddings
// only if the files hold no different head (tied_head.hpp). If that changes the configuration, `notes` gets a
// line. Throws Error(input), also for weights that cannot be read and for those of other programs.
ModelConfig with_head_of_weights(ModelConfig config, const std::filesystem::path& model, std::vector<std::string>& notes);
// The configuration must be the model's, or that of its first layers.
std::unique_ptr<WeightSource> stored_weights(const ModelConfig& config, const std::filesystem::path& model,
                                             const WeightReading& reading = {});

// Returns a description of a checkpoint that another program wrote and this one does not read, if its files
// identify it: "is a checkpoint of Megatron-LM; ...", with advice what to do. Returns nothing for formats that
// this program reads or does not know.
std::optional<std::string> foreign_checkpoint(const std::filesystem::path& path);

}  // namespace pipetrain
