// GPT-OSS: routed experts with biases and a clamped gated unit in every layer, a learned logit per head in the denominator of
// attention's softmax, and windows in every other layer (OpenAI 2025, "gpt-oss-120b & gpt-oss-20b Model Card").
#include "model/families/decoder.hpp"
#include "model/families/keys/layer_type_keys.hpp"
#include "model/families/keys/rope_keys.hpp"
#include "model/families/routed_decoder.hpp"

namespace pipetrain {
namespace {

constexpr ExpertNames gpt_oss_names{.block = "mlp.",
                                    .gate = "gate_proj",
                                    .up = "up_proj",
                                    .down = "down_proj",
                                    .count = "num_local_experts",
                                    .router = "router",
                                    .stacked = true};
constexpr std::int64_t gpt_oss_window = 128;
constexpr double gpt_oss_balance = 0.001;

void read_gpt_oss(const HfConfigReader& config, ModelConfig& model) {
  config.require("head_dim");
  read_decoder(config, model);
  read_windows(config, {.window = read_window(config, gpt_oss_window), .full_every = 2}, model);
  read_rope(config, model);
  model.biases.qkv = model.biases.attention_out = config.flag_or("attention_bias", true);
  read_experts(config, gpt_oss_names, gpt_oss_balance, model);
  model.experts.intermediate = model.intermediate;
  model.experts.clamp.alpha = config.positive_or("swiglu_alpha", model.experts.clamp.alpha);
  model.experts.clamp.limit = config.positive_or("swiglu_limit", model.experts.clamp.limit);
  // Published files repeat two numbers in keys that Hugging Face does not read.
  for (const char* const repeated : {"initial_context_length", "experts_per_token"}) config.mentions(repeated);
}

void write_gpt_oss(const ModelConfig& config, Json& text) {
  write_decoder(config, text);
  write_windows(config, text);
  if (config.window == 0) text["sliding_window"] = gpt_oss_window;  // transformers wants a number where no layer has one too
  text["attention_bias"] = config.biases.qkv;
  write_experts(config, gpt_oss_names, text);
  text["swiglu_alpha"] = config.experts.clamp.alpha;
  text["swiglu_limit"] = config.experts.clamp.limit;
}

}  // namespace

FamilySpec gpt_oss_family() {
  return {.name = "GPT-OSS",
          .model_type = "gpt_oss",
          .architecture = "GptOssForCausalLM",
          .classifier = "GptOssForSequenceClassification",
          .defaults = {.family = Family::gpt_oss,
                       .biases = {.qkv = true, .attention_out = true},
                       .sinks = true,
                       .rope = {.theta = 150'000,
                                .scaling = {.kind = RopeScaling::Kind::yarn,
                                            .factor = 32,
                                            .original_max_positions = 4096,
                                            .truncates = false}},
                       .experts = {.normalised = true, .biases = true, .clamp = {.alpha = 1.702, .limit = 7}}},
          .has_windows = true,
          .read = read_gpt_oss,
          .write = write_gpt_oss,
          .tensors = routed_decoder_tensors,
          .experts = &gpt_oss_names,
          .read_quantization = "mxfp4"};
}

}  // namespace pipetrain
