// config.json of a multimodal model (MultimodalSpec), which has the language model's keys under text_config.
#pragma once

#include <filesystem>
#include <optional>

#include "model/config/config.hpp"
#include "model/families/family.hpp"
#include "model/families/keys/hf_config_reader.hpp"

namespace pipetrain {

// The key of the language model's settings.
inline constexpr const char* text_config_key = "text_config";

// Returns the language model's settings: those under text_config, and Hugging Face's values for the keys that it leaves out.
// Throws Error(input) naming the key.
Json read_text_config(const HfConfigReader& outer, const FamilySpec& family);
// Takes the settings of the language model that stand in the keys next to text_config. Throws Error(input) for a key that is
// not known, and where both objects have the key tie_word_embeddings with different values.
void read_outer_keys(const HfConfigReader& outer, const MultimodalSpec& spec, ModelConfig& model);

// True when a folder's config.json is that of a multimodal model.
bool is_multimodal(const Json& config);
// Returns config.json of a folder whose model is multimodal; nothing for other models and where there is no such file. Throws
// Error(input) naming the file.
std::optional<Json> read_multimodal_config(const std::filesystem::path& folder);
// Returns config.json of the multimodal model `outer` whose language model has become `model`. It is unchanged where the
// language model's settings are.
Json with_text_config(Json outer, const ModelConfig& model);

}  // namespace pipetrain
