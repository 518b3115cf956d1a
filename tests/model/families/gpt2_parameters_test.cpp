// GPT-2's tensors: joint query, key and value, matrices that files store transposed, biases.
#include <cmath>
#include <map>
#include <vector>

#include "catch.hpp"
#include "model/costs.hpp"
#include "model/parameters/parameter_slice.hpp"
#include "model/weights/safetensors.hpp"
#include "model/weights/weights_fixture.hpp"
#include "paths.hpp"
#include "temp_folder.hpp"

namespace pipetrain {
namespace {

ModelConfig small_gpt2_config(bool tied = true) { return small_config(tied, Family::gpt2); }

const BlockParameters& block_of(const ParameterLayout& layout, BlockKind kind) {
  for (const BlockParameters& block : layout.blocks) {
    if (block.block.kind == kind) return block;
  }
  throw std::logic_error("no such block");
}

std::vector<Parameter> named(const ParameterLayout& layout, const std::string& name) {
  std::vector<Parameter> found;
  for (const Parameter& parameter : layout.parameters) {
    if (parameter.name == name) found.push_back(parameter);
  }
  return found;
}

}  // namespace

TEST_CASE("a rank's heads of GPT-2's query, key and value are slices of one tensor, stacked") {
  const ModelConfig config = small_gpt2_config();  // 8 heads of 4
  const ParameterLayout layout = layout_parameters(config, {blocks_of(config)}, 1, 2);
  const std::vector<StoredTensor>& tensors = block_of(layout, BlockKind::attention).tensors;
  REQUIRE(tensors.size() == 6);
  CHECK(tensors[2].shape == Shape{48, 32});
  CHECK(tensors[3].shape == Shape{48});
  CHECK(tensors[4].shape == Shape{32, 16});
  CHECK(tensors[5].shape == Shape{32});
  const auto weights = named(layout, "transformer.h.0.attn.c_attn.weight");
  const auto biases = named(layout, "transformer.h.0.attn.c_attn.bias");
  REQUIRE(weights.size() == 3);
  REQUIRE(biases.size() == 3);
  for (std::size_t part = 0; part < 3; ++part) {
    CHECK(weights[part].full == Shape{32, 96});
    CHECK(weights[part].local == Shape{16, 32});
    CHECK(weights[part].transposed);
    CHECK(weights[part].begin == static_cast<std::int64_t>(part) * 32 + 16);
    CHECK(weights[part].offset == tensors[2].offset + part * 16 * 32);
    CHECK(weights[part].decays);
    CHECK(biases[part].begin == weights[part].begin);
    CHECK_FALSE(biases[part].decays);
  }
}

TEST_CASE("the ranks' slices of GPT-2's tensors cover each element once, replicated ones on every rank") {
  const ModelConfig config = small_gpt2_config(GENERATE(false, true));
  for (const int tp_size : {1, 2, 4}) {
    std::map<std::string, std::vector<int>> covered;
    for (const NamedShape& tensor : logical_tensors(config)) {
      covered[tensor.name].resize(static_cast<std::size_t>(tensor.shape.elements()));
    }
    for (int rank = 0; rank < tp_size; ++rank) {
      const ParameterLayout layout = layout_parameters(config, {blocks_of(config)}, rank, tp_size);
      const Region replicated = layout.replicated_grads.front(), zeroed = layout.zeroed_grads.front();
      for (const Parameter& parameter : layout.parameters) {
        if (parameter.tied_copy) continue;
        const bool on_every_rank = parameter.grad_offset < replicated.end;
        const bool vector_or_table = parameter.full.rank() == 1 || parameter.name.find(".wte.") != std::string::npos ||
                                     parameter.name.find(".wpe.") != std::string::npos;
        INFO(parameter.name << " on " << rank << " of " << tp_size);
        CHECK((parameter.grad_offset < zeroed.end) == vector_or_table);
        if (tp_size > 1) CHECK(on_every_rank == (parameter.split_axis < 0));
        if (on_every_rank && rank > 0) continue;
        for_each_run(parameter, [&](std::int64_t first, std::int64_t count, std::int64_t) {
          for (std::int64_t i = first; i < first + count; ++i) ++covered.at(parameter.name).at(static_cast<std::size_t>(i));
        });
      }
    }
    std::size_t elements = 0;
    for (const auto& [name, times] : covered) {
      INFO(name);
      CHECK(times == std::vector<int>(times.size(), 1));
      elements += times.size();
    }
    CHECK(static_cast<std::int64_t>(elements) == parameter_count(config));
  }
}

TEST_CASE("GPT-2's presets have the published numbers of parameters") {
  CHECK(parameter_count(preset_config("gpt2")) == 124'439'808);
  CHECK(parameter_count(preset_config("gpt2-medium")) == 354'823'168);
  CHECK(parameter_count(preset_config("gpt2-large")) == 774'030'080);
  CHECK(parameter_count(preset_config("gpt2-xl")) == 1'557'611'200);
}

TEST_CASE("a slice goes to its place in the full tensor and back") {
  const ModelConfig config = small_gpt2_config();
  std::map<std::string, std::vector<float>> tensors, expected = load_all(*random_weights(config, 4), config);
  for (int rank = 0; rank < 4; ++rank) {
    for (const Parameter& parameter : layout_parameters(config, {blocks_of(config)}, rank, 4).parameters) {
      if (parameter.tied_copy) continue;
      auto& full = tensors[parameter.name];
      full.resize(static_cast<std::size_t>(parameter.full.elements()));
      write_slice(parameter, load(*random_weights(config, 4), parameter).data(), full.data());
    }
  }
  CHECK(tensors == expected);
}

TEST_CASE("a GPT-2 folder's weights load in slices, and a saved one reads back bit by bit") {
  const fs::path golden = fs::path(test_data()) / "golden/gpt2_tiny";
  const ModelConfig config = read_hf_config(golden);
  check_slices(*hf_weights(config, golden), config);

  const TempFolder folder;
  const ModelConfig small = small_gpt2_config(GENERATE(false, true));
  save(small, folder.path() / "model");
  CHECK(read_hf_config(folder.path() / "model") == small);
  CHECK(load_all(*hf_weights(small, folder.path() / "model"), small) == load_all(*random_weights(small, 1), small));
}

TEST_CASE("GPT-2 files without the head leave out the names' beginning, and old ones keep causal masks") {
  const ModelConfig config = small_gpt2_config();
  const TempFolder folder;
  std::vector<NamedShape> tensors;
  for (NamedShape tensor : logical_tensors(config)) {
    tensor.name = tensor.name.substr(std::string("transformer.").size());
    tensors.push_back(tensor);
  }
  tensors.push_back({"h.0.attn.bias", {1, 1, 7, 7}});
  tensors.push_back({"h.2.attn.masked_bias", {1}});
  SafetensorsWriter writer(folder.path() / "model.safetensors", tensors);
  const Tensors expected = load_all(*random_weights(config, 1), config);
  for (const NamedShape& tensor : tensors) {
    const auto found = expected.find("transformer." + tensor.name);
    const std::vector<float> masks(static_cast<std::size_t>(tensor.shape.elements()));
    writer.write(found == expected.end() ? masks.data() : found->second.data());
  }
  writer.finish();
  CHECK(load_all(*hf_weights(config, folder.path()), config) == expected);
}

TEST_CASE("GPT-2's random biases are 0, and what ends in the residual stream is smaller by the root of twice the layers") {
  ModelConfig config = small_gpt2_config();
  config.hidden = 128;
  config.intermediate = 512;
  config.init_std = 0.5;
  const Tensors tensors = load_all(*random_weights(config, 6), config);
  CHECK(tensors.at("transformer.h.1.mlp.c_fc.bias") == std::vector<float>(512, 0.0F));
  CHECK(tensors.at("transformer.ln_f.weight") == std::vector<float>(128, 1.0F));
  CHECK(tensors.at("transformer.ln_f.bias") == std::vector<float>(128, 0.0F));
  const auto deviation = [&](const std::string& name) {
    double squares = 0;
    for (const float value : tensors.at(name)) squares += static_cast<double>(value) * value;
    return std::sqrt(squares / static_cast<double>(tensors.at(name).size()));
  };
  CHECK(deviation("transformer.h.1.mlp.c_fc.weight") == Approx(0.5).epsilon(0.02));
  CHECK(deviation("transformer.h.1.mlp.c_proj.weight") == Approx(0.5 / std::sqrt(2.0 * 3)).epsilon(0.02));
  CHECK(deviation("transformer.h.1.attn.c_proj.weight") == Approx(0.5 / std::sqrt(2.0 * 3)).epsilon(0.02));
}

}  // namespace pipetrain
