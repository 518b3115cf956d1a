// Files that hold the matrices of all experts of a layer as one tensor, as transformers 5 has them in memory.
#include <filesystem>

#include "catch.hpp"
#include "core/error.hpp"
#include "model/weights/full_tensors.hpp"
#include "model/weights/safetensors.hpp"
#include "model/weights/weights.hpp"
#include "paths.hpp"
#include "temp_folder.hpp"

namespace pipetrain::test {
namespace {

namespace fs = std::filesystem;

struct StackedFolder {
  TempFolder folder;
  ModelConfig config;
  Tensors expected;

  // `block`: the routed block's name in the model's own files; with `cut` the last expert's down matrix is missing.
  StackedFolder(const std::string& golden, const std::string& block, const std::vector<std::string>& matrices,
                bool cut = false) {
    const fs::path from = fs::path(test_data()) / "golden" / golden;
    config = read_hf_config(from);
    expected = load_all(*hf_weights(config, from), config);
    fs::copy_file(from / "config.json", folder.path() / "config.json");
    std::vector<NamedShape> shapes;
    std::vector<std::vector<float>> values;
    const auto add = [&](const std::string& name, const Shape& shape, std::vector<float> all) {
      shapes.push_back({name, shape});
      values.push_back(std::move(all));
    };
    for (const NamedShape& tensor : logical_tensors(config)) {
      const std::size_t at = tensor.name.find("." + block + ".");
      if (tensor.name.find(".experts.") != std::string::npos) continue;
      const bool renamed = at != std::string::npos;
      add(renamed ? tensor.name.substr(0, at) + ".mlp." + tensor.name.substr(at + block.size() + 2) : tensor.name, tensor.shape,
          expected.at(tensor.name));
    }
    const std::int64_t inner = config.experts.intermediate, hidden = config.hidden,
                       count = config.experts.count - (cut ? 1 : 0);
    for (std::int64_t layer = 0; layer < config.layers; ++layer) {
      if (!config.experts.routes(layer)) continue;
      std::vector<float> gate_up, down;
      for (std::int64_t expert = 0; expert < config.experts.count; ++expert) {
        const auto matrix = [&](const std::string& name) {
          return expected.at("model.layers." + std::to_string(layer) + "." + block + ".experts." + std::to_string(expert) +
                             "." + name + ".weight");
        };
        for (const std::string& name : {matrices[0], matrices[1]}) {
          const auto part = matrix(name);
          gate_up.insert(gate_up.end(), part.begin(), part.end());
        }
        const auto part = matrix(matrices[2]);
        if (expert < count) down.insert(down.end(), part.begin(), part.end());
      }
      const std::string prefix = "model.layers." + std::to_string(layer) + ".mlp.experts.";
      add(prefix + "gate_up_proj", {config.experts.count, 2 * inner, hidden}, std::move(gate_up));
      add(prefix + "down_proj", {count, hidden, inner}, std::move(down));
    }
    write_tensors(folder.path() / "model.safetensors", shapes,
                  [&](std::size_t i, float* out) { std::copy(values[i].begin(), values[i].end(), out); });
  }
};

}  // namespace

TEST_CASE("experts that a file stacks load as those of files that name each", "[weights][experts]") {
  for (const auto& [golden, block, matrices] :
       {std::tuple{"mixtral_tiny", "block_sparse_moe", std::vector<std::string>{"w1", "w3", "w2"}},
        {"qwen3_moe_tiny", "mlp", {"gate_proj", "up_proj", "down_proj"}},
        {"qwen2_moe_tiny", "mlp", {"gate_proj", "up_proj", "down_proj"}}}) {
    INFO(golden);
    const StackedFolder stacked(golden, block, matrices);
    CHECK(load_all(*hf_weights(stacked.config, stacked.folder.path()), stacked.config) == stacked.expected);
  }
}

TEST_CASE("an expert that a stack lacks is named", "[weights][experts]") {
  const StackedFolder stacked("mixtral_tiny", "block_sparse_moe", {"w1", "w3", "w2"}, true);
  try {
    hf_weights(stacked.config, stacked.folder.path());
    FAIL("the folder was read");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::input);
    CHECK(std::string(error.what()).find("tensor model.layers.0.block_sparse_moe.experts.7.w2.weight is missing") !=
          std::string::npos);
  }
}

}  // namespace pipetrain::test
