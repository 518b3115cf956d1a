// The presets of models with routed experts, with the sizes of their makers' config.json.
#pragma once

#include "model/config/config.hpp"

namespace pipetrain {

ModelConfig mixtral_8x7b();      // Jiang et al. 2024, "Mixtral of Experts", table 1
ModelConfig qwen2_57b_a14b();    // Qwen team 2024, "Qwen2 Technical Report", table 1
ModelConfig qwen3_30b_a3b();     // Qwen team 2025, "Qwen3 Technical Report", table 2
ModelConfig qwen3_235b_a22b();   // likewise
ModelConfig olmoe_1b_7b();       // Muennighoff et al. 2024, "OLMoE: Open Mixture-of-Experts Language Models", table 10
ModelConfig gpt_oss_20b();       // OpenAI 2025, "gpt-oss-120b & gpt-oss-20b Model Card", table 1
ModelConfig gpt_oss_120b();      // likewise
ModelConfig deepseek_v2_lite();  // DeepSeek-AI 2024, "DeepSeek-V2", appendix B
ModelConfig deepseek_v3();       // DeepSeek-AI 2024, "DeepSeek-V3 Technical Report", section 4.2

}  // namespace pipetrain
