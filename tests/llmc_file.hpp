// A model file as llm.c writes it, from a GPT-2's tensors under their Hugging Face names.
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "model/config/config.hpp"

namespace pipetrain {

class LlmcFileWriter {
 public:
  LlmcFileWriter(const ModelConfig& config, const std::map<std::string, std::vector<float>>& tensors)
      : config_(config), tensors_(tensors) {}

  // version 3: fp32; 5: bf16, which must be able to hold the values. rows: those of the token table.
  std::string bytes(std::int32_t version, std::int64_t rows) {
    bf16_ = version == 5;
    std::vector<std::int32_t> header(256);
    const std::vector<std::int64_t> numbers = {20240326,       version,       config_.max_positions, config_.vocabulary,
                                               config_.layers, config_.heads, config_.hidden,        rows};
    for (std::size_t i = 0; i < numbers.size(); ++i) header[i] = static_cast<std::int32_t>(numbers[i]);
    out_.assign(reinterpret_cast<const char*>(header.data()), header.size() * sizeof(std::int32_t));

    std::vector<float> table = tensors_.at("transformer.wte.weight");
    table.resize(static_cast<std::size_t>(rows * config_.hidden));
    put(table);
    put(tensors_.at("transformer.wpe.weight"));
    for (const char* name :
         {"ln_1.weight", "ln_1.bias", "attn.c_attn.weight", "attn.c_attn.bias", "attn.c_proj.weight", "attn.c_proj.bias",
          "ln_2.weight", "ln_2.bias", "mlp.c_fc.weight", "mlp.c_fc.bias", "mlp.c_proj.weight", "mlp.c_proj.bias"})
      put_layers(name);
    put(tensors_.at("transformer.ln_f.weight"));
    put(tensors_.at("transformer.ln_f.bias"));
    return out_;
  }

 private:
  void put_layers(const std::string& name) {
    const bool matrix = name.find(".c_") != std::string::npos && name.ends_with(".weight");
    for (std::int64_t layer = 0; layer < config_.layers; ++layer) {
      const std::vector<float>& values = tensors_.at("transformer.h." + std::to_string(layer) + "." + name);
      put(matrix ? transposed(values, static_cast<std::size_t>(inputs_of(name))) : values);
    }
  }
  std::int64_t inputs_of(const std::string& name) const {
    return name == "mlp.c_proj.weight" ? 4 * config_.hidden : config_.hidden;
  }

  static std::vector<float> transposed(const std::vector<float>& values, std::size_t rows) {
    const std::size_t columns = values.size() / rows;
    std::vector<float> result;
    for (std::size_t column = 0; column < columns; ++column)
      for (std::size_t row = 0; row < rows; ++row) result.push_back(values[row * columns + column]);
    return result;
  }

  void put(const std::vector<float>& values) {
    for (const float value : values) {
      char bytes[sizeof value];
      std::memcpy(bytes, &value, sizeof value);
      out_.append(bf16_ ? bytes + 2 : bytes, bf16_ ? 2 : 4);  // the upper half of a float is a bf16
    }
  }

  const ModelConfig& config_;
  const std::map<std::string, std::vector<float>>& tensors_;
  std::string out_;
  bool bf16_ = false;
};

}  // namespace pipetrain
