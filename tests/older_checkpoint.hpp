// Checkpoints as earlier builds wrote them: full tensors in a file for each state.
#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "actors/training/checkpoint/checkpoint.hpp"
#include "core/checksum.hpp"
#include "model/weights/piecewise_weights.hpp"
#include "model/weights/safetensors.hpp"

namespace pipetrain::test {

namespace older {

inline std::string hex(std::uint64_t sum) { return fmt::format("{:016x}", sum); }

inline nlohmann::ordered_json write_state(const std::filesystem::path& file, const ModelConfig& config,
                                          const WeightSource& source) {
  const auto tensors = logical_tensors(config);
  const SafetensorsChecksums sums = write_tensors(file, tensors, [&](std::size_t i, float* out) {
    Parameter whole;
    whole.name = tensors[i].name;
    whole.full = whole.local = tensors[i].shape;
    source.load(whole, out);
  });
  nlohmann::ordered_json entry = {
      {"bytes", sums.bytes}, {"header", hex(sums.header)}, {"tensors", nlohmann::ordered_json::object()}};
  for (const auto& [name, sum] : sums.tensors) entry["tensors"][name] = hex(sum);
  return entry;
}

}  // namespace older

// Turns a checkpoint of today's format into one of format 2 or 3, in place.
inline void make_older(const std::filesystem::path& checkpoint, int format) {
  const ModelConfig config = read_hf_config(checkpoint);
  const InitialState initial = open_checkpoint(checkpoint, verify_checkpoint(checkpoint), config);
  const auto rank_paths = rank_files(checkpoint);
  std::ifstream in(checkpoint / "state.json");
  auto state = nlohmann::ordered_json::parse(in);
  nlohmann::ordered_json files = {{"config.json", state["checksums"]["files"]["config.json"]}};
  files["model.safetensors"] = older::write_state(checkpoint / "model.safetensors", config, *initial.weights);
  for (const auto& [name, source] : initial.states)
    files[name + ".safetensors"] = older::write_state(checkpoint / (name + ".safetensors"), config, *source);
  for (const auto& path : rank_paths) std::filesystem::remove(path);
  state["format"] = format;
  state.erase("optimizer");  // there was only one
  state["checksum"] = std::string(16, '0');
  state["checksums"]["files"] = files;
  if (format == 2)
    for (const char* key : {"checksum", "checksums", "last_loss"}) state.erase(key);
  std::string text = state.dump(1) + "\n";
  if (format == 3) text.replace(text.find(std::string(16, '0')), 16, older::hex(checksum(text.data(), text.size())));
  std::ofstream(checkpoint / "state.json") << text;
}

}  // namespace pipetrain::test
