// Small models' weights: drawn, saved, loaded whole and in slices.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "catch.hpp"
#include "model/weights.hpp"
#include "small_config.hpp"

namespace pipetrain {

namespace fs = std::filesystem;

using test::small_config;
using Tensors = std::map<std::string, std::vector<float>>;

inline Parameter whole(const NamedShape& tensor) {
  Parameter parameter;
  parameter.name = tensor.name;
  parameter.full = parameter.local = tensor.shape;
  return parameter;
}

inline std::vector<float> load(const WeightSource& source, const Parameter& parameter) {
  std::vector<float> values(static_cast<std::size_t>(parameter.local.elements()));
  source.load(parameter, values.data());
  return values;
}

inline Tensors load_all(const WeightSource& source, const ModelConfig& config) {
  Tensors tensors;
  for (const NamedShape& tensor : logical_tensors(config)) tensors[tensor.name] = load(source, whole(tensor));
  return tensors;
}

inline void save(const ModelConfig& config, const fs::path& folder, std::uint64_t seed = 1) {
  const auto source = random_weights(config, seed);
  const auto tensors = logical_tensors(config);
  save_hf_model(config, folder, [&](std::size_t i, float* out) { source->load(whole(tensors[i]), out); });
}

// Every rank's slice of every parameter, at every tensor-parallel size, is that slice of the full tensor.
inline void check_slices(const WeightSource& source, const ModelConfig& config) {
  const Tensors full = load_all(source, config);
  for (const int tp_size : {1, 2, 4}) {
    for (int rank = 0; rank < tp_size; ++rank) {
      for (const Parameter& parameter : layout_parameters(config, {blocks_of(config)}, rank, tp_size).parameters) {
        const std::vector<float> slice = load(source, parameter);
        const std::vector<float>& tensor = full.at(parameter.name);
        if (parameter.full.rank() == 1) {
          CHECK(slice == tensor);
          continue;
        }
        const std::int64_t row0 = parameter.split_axis == 0 ? parameter.begin : 0;
        const std::int64_t col0 = parameter.split_axis == 1 ? parameter.begin : 0;
        bool same = true;
        for (std::int64_t row = 0; row < parameter.local[0]; ++row) {
          for (std::int64_t col = 0; col < parameter.local[1]; ++col) {
            same &= slice[static_cast<std::size_t>(row * parameter.local[1] + col)] ==
                    tensor[static_cast<std::size_t>((row0 + row) * parameter.full[1] + col0 + col)];
          }
        }
        INFO(parameter.name << " on rank " << rank << " of " << tp_size);
        CHECK(same);
      }
    }
  }
}

}  // namespace pipetrain
