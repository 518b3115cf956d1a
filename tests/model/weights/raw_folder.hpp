// A Hugging Face folder as plain values, which tests change and write.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "paths.hpp"
#include "run_program.hpp"

namespace pipetrain::test {

struct RawTensor {
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::string bytes;
  bool operator==(const RawTensor&) const = default;
};
using RawTensors = std::map<std::string, RawTensor>;

// Adds the tensors of a file.
inline void read_raw_tensors(const std::filesystem::path& file, RawTensors& tensors) {
  const std::string bytes = read_file(file);
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  const std::size_t data = sizeof length + length;
  const auto header = nlohmann::json::parse(bytes.substr(sizeof length, length));
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    const std::size_t begin = entry["data_offsets"][0], end = entry["data_offsets"][1];
    tensors[name] = {entry["dtype"], entry["shape"], bytes.substr(data + begin, end - begin)};
  }
}

inline void write_raw_tensors(const std::filesystem::path& file, const RawTensors& tensors) {
  nlohmann::json header;
  std::string data;
  // As transformers writes them: a tensor of larger elements comes first.
  for (const char* dtype : {"F32", "I32", "BF16", "F16", "U8", "F8_E4M3"}) {
    for (const auto& [name, tensor] : tensors) {
      if (tensor.dtype != dtype) continue;
      header[name] = {
          {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {data.size(), data.size() + tensor.bytes.size()}}};
      data += tensor.bytes;
    }
  }
  header["__metadata__"] = {{"format", "pt"}};
  const std::string text = header.dump();
  const std::uint64_t length = text.size();
  std::ofstream out(file, std::ios::binary);
  out.write(reinterpret_cast<const char*>(&length), sizeof length);
  out << text << data;
}

struct RawFolder {
  nlohmann::json config;
  RawTensors tensors;

  explicit RawFolder(const std::filesystem::path& folder) {
    config = nlohmann::json::parse(std::ifstream(folder / "config.json"));
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with("model") && name.ends_with(".safetensors")) read_raw_tensors(entry.path(), tensors);
    }
  }

  void write(const std::filesystem::path& folder) const {
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "config.json") << config.dump(2);
    write_raw_tensors(folder / "model.safetensors", tensors);
  }
  // Writes two files of half of the tensors each, and their index.
  void write_shards(const std::filesystem::path& folder) const {
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "config.json") << config.dump(2);
    const auto middle = std::next(tensors.begin(), static_cast<std::ptrdiff_t>(tensors.size() / 2));
    const std::pair<const char*, RawTensors> shards[] = {{"model-00001-of-00002.safetensors", {tensors.begin(), middle}},
                                                         {"model-00002-of-00002.safetensors", {middle, tensors.end()}}};
    nlohmann::json index;
    for (const auto& [name, of_shard] : shards) {
      write_raw_tensors(folder / name, of_shard);
      for (const auto& [tensor, values] : of_shard) index["weight_map"][tensor] = name;
    }
    std::ofstream(folder / "model.safetensors.index.json") << index.dump();
  }

  // Returns the settings of the language model, which a multimodal model has under text_config.
  nlohmann::json& language_model() { return config.contains("text_config") ? config["text_config"] : config; }
  bool is_multimodal() const { return config.contains("text_config"); }
  bool classifies() const { return tensors.contains("score.weight"); }
  // Returns the names of the language model's tensors.
  std::vector<std::string> language_tensors() const {
    std::vector<std::string> names;
    for (const auto& [name, tensor] : tensors)
      if (name.find("vision_tower") == std::string::npos && name.find("projector") == std::string::npos) names.push_back(name);
    return names;
  }
};

// Returns the folders under tests/golden that hold a model, by name. Models of new families are among them.
inline std::vector<std::string> golden_models() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(test_data() + "/golden")) {
    const bool is_model =
        std::filesystem::exists(entry.path() / "config.json") && std::filesystem::exists(entry.path() / "model.safetensors");
    if (is_model) names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}
inline std::filesystem::path golden_folder(const std::string& name) { return test_data() + "/golden/" + name; }

}  // namespace pipetrain::test
