// A golden model that is read and saved without training is the same model to the bit.
#include "catch.hpp"
#include "model/weights/multimodal_parts.hpp"
#include "model/weights/raw_folder.hpp"
#include "model/weights/stored_model.hpp"
#include "model/weights/weights_fixture.hpp"
#include "temp_folder.hpp"

namespace pipetrain {
namespace {

using nlohmann::json;

// Checks that every member that `before` has is in `after`, with the same value.
void check_contained(const json& before, const json& after, const std::string& key) {
  INFO(key << ": " << before << " and " << after);
  if (!before.is_object()) {
    CHECK(before == after);
    return;
  }
  for (const auto& [member, value] : before.items()) {
    if (member == "partial_rotary_factor" && value == 1.0 && !after.contains(member)) continue;  // it is 1 where it is absent
    REQUIRE(after.contains(member));
    check_contained(value, after[member], key + "." + member);
  }
}

TEST_CASE("each golden model that is saved untrained has the same tensors, configuration and spellings of rotary keys") {
  for (const std::string& name : test::golden_models()) {
    INFO(name);
    const fs::path golden = test::golden_folder(name);
    const ModelConfig config = read_hf_config(golden);
    const auto source = stored_weights(config, golden);
    const auto tensors = logical_tensors(config);
    const TempFolder folder;
    const fs::path saved = folder.path() / "model";
    save_hf_model(config, saved, [&](std::size_t i, float* out) { source->load(whole(config, tensors[i]), out); },
                  {.multimodal = multimodal_parts(golden)});
    const test::RawFolder before(golden), after(saved);
    CHECK(after.tensors == before.tensors);
    CHECK(read_hf_config(saved) == config);
    for (const char* key : {"rope_theta", "rope_scaling", "rope_parameters", "rope_local_base_freq", "partial_rotary_factor",
                            "layer_types", "tie_word_embeddings", "model_type", "architectures", "vision_config"})
      if (before.config.contains(key) && !before.config[key].is_null() &&
          !(config.classifies() && std::string(key) == "tie_word_embeddings"))
        check_contained(before.config[key], after.config.value(key, json()), key);
  }
}

}  // namespace
}  // namespace pipetrain
