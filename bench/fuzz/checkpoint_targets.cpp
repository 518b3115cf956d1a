#include <fstream>
#include <iterator>

#include "actors/training/checkpoint/rank_file.hpp"
#include "bench/fuzz/target.hpp"
#include "model/config/config.hpp"
#include "model/weights/piecewise_weights.hpp"

namespace pipetrain::fuzz {
namespace {

namespace fs = std::filesystem;

// The files of two ranks of a checkpoint, one of which is changed.
Target rank_target(const fs::path& folder) {
  ModelConfig config = preset_config("tiny");
  config.layers = 1, config.hidden = 8, config.heads = config.kv_heads = 2, config.head_dim = 4, config.intermediate = 8;
  config.vocabulary = 16;
  const auto write = [&](int rank) {
    const ParameterLayout layout = layout_parameters(config, {blocks_of(config)}, rank, 2);
    const std::vector<float> values(layout.weight_elements);
    std::vector<HeldState> pieces;
    for (std::size_t i = 0; i < layout.parameters.size(); ++i) {
      const Parameter& parameter = layout.parameters[i];
      if (parameter.tied_copy || (rank > 0 && parameter.split_axis < 0)) continue;
      pieces.push_back({"weights", i, {0, static_cast<std::size_t>(parameter.local.elements())}, values.data()});
    }
    return folder / write_rank_file(folder, rank, layout, pieces).name;
  };
  const fs::path first = write(0), second = write(1), changed = folder / rank_file_name(2);
  Target target{"rank",
                {},
                {"weights/", "[0:8]", "[:,4:8]", ".T", "{0:16}", "\"F32\"", "\"data_offsets\"", "model.embed_tokens.weight"},
                [=](std::string_view input) {
                  put_file(changed, input);
                  const auto states = piecewise_states(config, {first, changed});
                  std::vector<float> full(static_cast<std::size_t>(config.vocabulary * config.hidden));
                  Parameter embedding;
                  embedding.name = logical_tensors(config).front().name;
                  embedding.full = embedding.local = logical_tensors(config).front().shape;
                  states.at("weights")->load(embedding, full.data());
                },
                nullptr};
  std::ifstream stream(second, std::ios::binary);
  target.seeds = {{std::istreambuf_iterator<char>(stream), {}}};
  return target;
}

}  // namespace

std::vector<Target> checkpoint_targets(const fs::path& folder) { return {rank_target(folder)}; }

}  // namespace pipetrain::fuzz
