// Ways in which a model folder can be wrong, for every golden model.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "model/weights/raw_folder.hpp"

namespace pipetrain::test {

struct Damage {
  const char* name;
  // Writes the damaged model to the folder, and returns a part of the line that refuses it; empty where the damage does not
  // apply to the model.
  std::function<std::string(RawFolder, const std::filesystem::path&)> apply;
};

inline std::string write_changed(const RawFolder& model, const std::filesystem::path& folder, const std::string& line) {
  model.write(folder);
  return line;
}

inline RawTensor& first_vector(RawFolder& model) {
  const auto names = model.language_tensors();
  return model.tensors.at(*std::find_if(names.begin(), names.end(),
                                        [&](const std::string& name) { return model.tensors.at(name).shape.size() == 1; }));
}

// Returns the table of tokens.
inline std::string table_name(const RawFolder& model) {
  for (const std::string& name : model.language_tensors())
    if (name.ends_with("embed_tokens.weight") || name.ends_with("wte.weight")) return name;
  return "";
}

inline std::string without_size(RawFolder model, const std::filesystem::path& folder) {
  auto& keys = model.language_model();
  const std::string key = keys.contains("n_embd") ? "n_embd" : "hidden_size";
  keys.erase(key);
  // Hugging Face has a default for the keys of a text_config.
  return write_changed(model, folder, model.is_multimodal() ? "has shape" : "key \"" + key + "\" is missing");
}

// Damages no folder of a family that is published in that form: matrices without codes are read as they are.
inline std::string with_quantization(RawFolder model, const std::filesystem::path& folder, const std::string& method) {
  const std::string family = model.config.value("model_type", "");
  if ((family == "deepseek_v3" && method == "fp8") || (family == "gpt_oss" && method == "mxfp4")) return "";
  model.config["quantization_config"] = {{"quant_method", method}};
  return write_changed(model, folder,
                       "is set: the weights are quantized by " + method + "; use the model's unquantized weights");
}

// The table of a vocabulary that others have padded.
inline std::string with_more_rows(RawFolder model, const std::filesystem::path& folder) {
  RawTensor& table = model.tensors.at(table_name(model));
  const std::size_t row = table.bytes.size() / static_cast<std::size_t>(table.shape[0]);
  table.shape[0] += 8;
  table.bytes.append(8 * row, '\0');
  return write_changed(model, folder, "let vocab_size be " + std::to_string(table.shape[0]));
}

inline std::string without_tensor(RawFolder model, const std::filesystem::path& folder, double share) {
  const auto names = model.language_tensors();
  const std::string name = names[static_cast<std::size_t>(share * static_cast<double>(names.size() - 1))];
  model.tensors.erase(name);
  return write_changed(model, folder, "tensor " + name + " is missing");
}

inline std::string untied_without_head(RawFolder model, const std::filesystem::path& folder) {
  auto& keys = model.language_model();
  const bool has_head = model.tensors.contains("lm_head.weight");
  if (model.classifies() || has_head) return "";
  keys["tie_word_embeddings"] = model.config["tie_word_embeddings"] = false;
  return write_changed(model, folder, "lm_head.weight is missing; if the model's embeddings are tied");
}

inline std::string untied_head_lost(RawFolder model, const std::filesystem::path& folder) {
  if (model.tensors.erase("lm_head.weight") == 0) return "";
  return write_changed(model, folder, "lm_head.weight is missing; if the model's embeddings are tied");
}

inline std::string without_shard(const RawFolder& model, const std::filesystem::path& folder) {
  model.write_shards(folder);
  std::filesystem::remove(folder / "model-00002-of-00002.safetensors");
  return "model-00002-of-00002.safetensors";
}

inline std::string without_shard_and_index(const RawFolder& model, const std::filesystem::path& folder) {
  without_shard(model, folder);
  std::filesystem::remove(folder / "model.safetensors.index.json");
  return "has 1 of its 2 shards";
}

inline const std::vector<Damage>& damages() {
  using Path = std::filesystem::path;
  static const std::vector<Damage> all{
      {"a tensor has another shape",
       [](RawFolder model, const Path& folder) {
         RawTensor& tensor = first_vector(model);
         tensor.bytes.append(tensor.bytes.size() / static_cast<std::size_t>(tensor.shape[0]), '\0');
         ++tensor.shape[0];
         return write_changed(model, folder, "has shape [" + std::to_string(tensor.shape[0]) + "]");
       }},
      {"a tensor has a type that is not read",
       [](RawFolder model, const Path& folder) {
         first_vector(model).dtype = "I32";
         return write_changed(model, folder, "has dtype I32");
       }},
      {"the first tensor is missing", [](const RawFolder& m, const Path& f) { return without_tensor(m, f, 0); }},
      {"a tensor in the middle is missing", [](const RawFolder& m, const Path& f) { return without_tensor(m, f, 0.5); }},
      {"the last tensor is missing", [](const RawFolder& m, const Path& f) { return without_tensor(m, f, 1); }},
      {"a tensor belongs to no model",
       [](RawFolder model, const Path& folder) {
         model.tensors["model.audio_tower.weight"] = {"F32", {1}, std::string(4, '\0')};
         return write_changed(model, folder, "audio_tower.weight is not part of the model");
       }},
      {"the weights are cut short",
       [](const RawFolder& model, const Path& folder) {
         model.write(folder);
         std::filesystem::resize_file(folder / "model.safetensors",
                                      std::filesystem::file_size(folder / "model.safetensors") - 1);
         return std::string("truncated");
       }},
      {"a shard is absent", without_shard},
      {"a shard and the index are absent", without_shard_and_index},
      {"a size is missing", without_size},
      {"a key is not known",
       [](RawFolder model, const Path& folder) {
         model.language_model()["surprising_factor"] = 2;
         return write_changed(model, folder, "surprising_factor\" is not known, and may change what the model computes");
       }},
      {"the vocabulary was padded", with_more_rows},
      {"no head, though not tied", untied_without_head},
      {"the head of an untied model is missing", untied_head_lost},
      {"quantized by fp8", [](const RawFolder& m, const Path& f) { return with_quantization(m, f, "fp8"); }},
      {"quantized by awq", [](const RawFolder& m, const Path& f) { return with_quantization(m, f, "awq"); }},
      {"quantized by gptq", [](const RawFolder& m, const Path& f) { return with_quantization(m, f, "gptq"); }},
      {"quantized by bitsandbytes", [](const RawFolder& m, const Path& f) { return with_quantization(m, f, "bitsandbytes"); }},
      {"quantized by mxfp4", [](const RawFolder& m, const Path& f) { return with_quantization(m, f, "mxfp4"); }},
  };
  return all;
}

}  // namespace pipetrain::test
