// Qwen2 and Qwen2.5: queries, keys and values have biases, and later layers may attend within a window.
#include "model/families/decoder.hpp"
#include "model/families/keys/qwen_windows.hpp"
#include "model/families/keys/rope_keys.hpp"

namespace pipetrain {

namespace {

void read_qwen2(const HfConfigReader& config, ModelConfig& model) {
  read_decoder(config, model);
  read_qwen_windows(config, model);
  read_rope(config, model);
}

void write_qwen2(const ModelConfig& config, Json& text) {
  write_decoder(config, text);
  write_qwen_windows(config, text);
}

}  // namespace

FamilySpec qwen2_family() {
  return {.name = "Qwen2",
          .model_type = "qwen2",
          .architecture = "Qwen2ForCausalLM",
          .classifier = "Qwen2ForSequenceClassification",
          .defaults = {.family = Family::qwen2, .biases = {.qkv = true}},
          .has_windows = true,
          .read = read_qwen2,
          .write = write_qwen2};
}

}  // namespace pipetrain
