// The tensors of every family: slices, and a folder that is written and read.
#include <map>
#include <set>
#include <vector>

#include "model/costs.hpp"
#include "model/families/config_fixture.hpp"
#include "model/parameters/gradient_norm.hpp"
#include "model/parameters/parameter_slice.hpp"
#include "model/weights/weights_fixture.hpp"

namespace pipetrain {
namespace {

TEST_CASE("the slices that count cover each element of each family's tensors once, and have its values", "[families]") {
  const Family family = GENERATE(from_range(test::every_family));
  const ModelConfig config = small_config(false, family);
  const auto source = random_weights(config, 4);
  const Tensors expected = load_all(*source, config);
  for (const int tp : {1, 2, 4, 8}) {
    INFO("family " << static_cast<int>(family) << " tp " << tp);
    Tensors found;
    std::map<std::string, std::vector<int>> times;
    std::set<std::string> frozen;  // in every run, so they do not count
    for (const auto& [name, values] : expected) {
      found[name].resize(values.size());
      times[name].resize(values.size());
    }
    for (int rank = 0; rank < tp; ++rank) {
      const ParameterLayout layout = layout_parameters(config, {blocks_of(config)}, rank, tp);
      for (const Parameter& parameter : layout.parameters)
        if (!is_trained(parameter.group)) frozen.insert(parameter.name);
      for (const std::size_t index : counted_parameters(layout, rank)) {
        const Parameter& parameter = layout.parameters[index];
        write_slice(parameter, load(*source, parameter).data(), found.at(parameter.name).data());
        const std::vector<float> ones(static_cast<std::size_t>(parameter.local.elements()), 1);
        std::vector<float> marks(times.at(parameter.name).size());
        write_slice(parameter, ones.data(), marks.data());
        for (std::size_t i = 0; i < marks.size(); ++i) times[parameter.name][i] += static_cast<int>(marks[i]);
      }
    }
    CHECK(found == expected);
    for (const auto& [name, counts] : times) {
      INFO(name);
      CHECK(counts == std::vector<int>(counts.size(), frozen.contains(name) ? 0 : 1));
    }
  }
}

TEST_CASE("each family's folder loads in slices, and a saved one reads back bit by bit", "[families]") {
  const std::string name = GENERATE("qwen2_tiny", "qwen3_tiny", "mistral_window_tiny", "gemma3_tiny", "smollm3_tiny",
                                    "granite_tiny", "olmo2_tiny", "phi3_tiny", "phi3_longrope_tiny", "seed_oss_tiny",
                                    "gpt_oss_tiny", "deepseek_v2_tiny", "deepseek_v2_groups_tiny", "deepseek_v3_tiny");
  INFO(name);
  const fs::path golden = fs::path(test_data()) / "golden" / name;
  const ModelConfig config = read_hf_config(golden);
  const auto source = hf_weights(config, golden);
  check_slices(*source, config);
  const TempFolder folder;
  const auto tensors = logical_tensors(config);
  save_hf_model(config, folder.path() / "model",
                [&](std::size_t i, float* out) { source->load(whole(config, tensors[i]), out); });
  CHECK(read_hf_config(folder.path() / "model") == config);
  CHECK(load_all(*hf_weights(config, folder.path() / "model"), config) == load_all(*source, config));
}

}  // namespace
}  // namespace pipetrain
