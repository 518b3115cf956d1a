#include "model/families/unbuilt_keys.hpp"

#include <fmt/format.h>

#include <cmath>

#include "model/families/family.hpp"

namespace pipetrain {
namespace {

// The value of a key that leaves the computation as it is.
enum class Off { no, one, zero, empty };

struct UnbuiltKey {
  const char* key;
  Off off;
};
constexpr UnbuiltKey unbuilt_keys[] = {{"embedding_multiplier", Off::one},
                                       {"scale_emb", Off::one},
                                       {"residual_multiplier", Off::one},
                                       {"logits_scaling", Off::one},
                                       {"logit_scale", Off::one},
                                       {"lm_head_multiplier", Off::one},
                                       {"final_logit_softcapping", Off::zero},
                                       {"attn_logit_softcapping", Off::zero},
                                       {"clip_qkv", Off::zero},
                                       {"use_bidirectional_attention", Off::no},
                                       {"use_qk_norm", Off::no},
                                       {"qk_layernorm", Off::no},
                                       {"use_parallel_residual", Off::no},
                                       {"rope_interleaved", Off::no},
                                       {"alibi", Off::no},
                                       {"per_layer_config", Off::empty},
                                       {"pruned_heads", Off::empty}};

bool is_off(const Json& value, Off off) {
  switch (off) {
    case Off::no:
      return value == false;
    case Off::one:
      return value.is_number() && value.as_double() == 1;
    case Off::zero:
      return value.is_number() && value.as_double() == 0;
    case Off::empty:
      return (value.is_object() || value.is_array()) && value.empty();
  }
  return false;
}

const char* name_of(Off off) {
  switch (off) {
    case Off::no:
      return "false";
    case Off::one:
      return "1";
    case Off::zero:
      return "0";
    case Off::empty:
      return "empty";
  }
  return "";
}

// Refuses a key with another value than its neutral one, which follows from the model's sizes.
void refuse_unbuilt_number(const HfConfigReader& config, const char* key, double neutral) {
  constexpr double rounding = 1e-5;  // of a number that somebody has written with few digits
  if (config.was_asked(key) || !config.has(key)) return;
  const Json& value = config.value(key);
  if (!value.is_number() || !(std::abs(value.as_double() - neutral) <= rounding * neutral))
    config.refuse_value(key, fmt::format("{:.6g}, or absent (another scale of attention is not built)", neutral));
}

// A window that no sequence fills cuts nothing off.
void refuse_window(const HfConfigReader& config, const char* key, std::int64_t positions) {
  if (!config.has(key)) return;
  const auto window = config.value(key).whole();
  if (!window || (*window > 0 && *window < positions))
    config.refuse_value(
        key, fmt::format("null, or at least the model's {} positions (attention within a window is not built)", positions));
}

}  // namespace

void refuse_unbuilt_keys(const HfConfigReader& config, const ModelConfig& model) {
  // transformers takes a null for false here.
  if (config.mentions("is_causal") && config.value("is_causal") != true)
    config.refuse_value("is_causal", "true (attention to later positions is not built)");
  for (const auto& [key, off] : unbuilt_keys) {
    if (!config.was_asked(key) && config.has(key) && !is_off(config.value(key), off))
      config.refuse_value(key, fmt::format("{}, or absent (what it asks for is not built)", name_of(off)));
  }
  const auto head = static_cast<double>(model.head_dim);
  refuse_unbuilt_number(config, "attention_multiplier", 1 / std::sqrt(head));
  refuse_unbuilt_number(config, "query_pre_attn_scalar", head);
  if (!spec_of(model.family).has_windows) {
    const bool is_off = !config.flag_or("use_sliding_window", true), has_window = config.has("sliding_window");
    if (has_window && !is_off) refuse_window(config, "sliding_window", model.max_positions);
  }
  refuse_window(config, "attention_chunk_size", model.max_positions);
}

}  // namespace pipetrain
