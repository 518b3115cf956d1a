// Small models' weights: drawn, saved, loaded whole and in slices.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "catch.hpp"
#include "model/families/small_config.hpp"
#include "model/weights/full_tensors.hpp"
#include "model/weights/safetensors.hpp"

namespace pipetrain {

namespace fs = std::filesystem;

using test::load;
using test::load_all;
using test::small_config;
using test::Tensors;
using test::whole;

inline void save(const ModelConfig& config, const fs::path& folder, std::uint64_t seed = 1) {
  const auto source = random_weights(config, seed);
  const auto tensors = logical_tensors(config);
  save_hf_model(config, folder, [&](std::size_t i, float* out) { source->load(whole(config, tensors[i]), out); });
}

// Writes random tensors under these names into one file; those of `config` have its shapes, others are [2].
inline void write_weights(const fs::path& file, const ModelConfig& config, const std::vector<std::string>& names) {
  std::vector<NamedShape> tensors;
  for (const std::string& name : names) {
    Shape shape{2};
    for (const NamedShape& tensor : logical_tensors(config)) {
      if (tensor.name == name) shape = tensor.shape;
    }
    if (name == "lm_head.weight") shape = {config.vocabulary, config.hidden};
    tensors.push_back({name, shape});
  }
  SafetensorsWriter writer(file, tensors);
  const auto source = random_weights(config, 1);
  for (const NamedShape& tensor : tensors) writer.write(load(*source, whole(config, tensor)).data());
  writer.finish();
}

inline std::vector<std::string> tensor_names(const ModelConfig& config) {
  std::vector<std::string> names;
  for (const NamedShape& tensor : logical_tensors(config)) names.push_back(tensor.name);
  return names;
}

// Checks that every rank's slice of every parameter, at every tensor-parallel size, is that slice of the full tensor.
inline void check_slices(const WeightSource& source, const ModelConfig& config) {
  const Tensors full = load_all(source, config);
  for (const int tp_size : {1, 2, 4}) {
    for (int rank = 0; rank < tp_size; ++rank) {
      for (const Parameter& parameter : layout_parameters(config, {blocks_of(config)}, rank, tp_size).parameters) {
        const std::vector<float> slice = load(source, parameter);
        const std::vector<float>& tensor = full.at(parameter.name);
        const std::int64_t row0 = parameter.split_axis == 0 ? parameter.begin : 0;
        const std::int64_t col0 = parameter.split_axis == 1 ? parameter.begin : 0;
        const bool matrix = parameter.full.rank() == 2;
        const std::int64_t cols = matrix ? parameter.local[1] : 1, full_cols = matrix ? parameter.full[1] : 1;
        bool same = true;
        for (std::int64_t row = 0; row < parameter.local[0]; ++row) {
          for (std::int64_t col = 0; col < cols; ++col) {
            const std::int64_t file_row = row0 + (parameter.transposed ? col : row);
            const std::int64_t file_col = col0 + (parameter.transposed ? row : col);
            same &= slice[static_cast<std::size_t>(row * cols + col)] ==
                    tensor[static_cast<std::size_t>(file_row * full_cols + file_col)];
          }
        }
        INFO(parameter.name << " on rank " << rank << " of " << tp_size);
        CHECK(same);
      }
    }
  }
}

}  // namespace pipetrain
