#include "model/config/attention_limits.hpp"

#include <fmt/format.h>

#include "core/error.hpp"

namespace pipetrain {

bool computes_heads(const ModelConfig& config, DeviceKind device, DType precision) {
  if (device != DeviceKind::cuda) return true;
  return precision == DType::f32 ? config.head_dim <= 256 : config.head_dim % 8 == 0;
}

void check_attention(const ModelConfig& config, DeviceKind device, DType precision) {
  if (config.experts.scores.corrected && precision != DType::f32)
    throw Error(ErrorKind::input, {"precision", precision == DType::bf16 ? "bf16" : "fp16"},
                "biases of choices that are rounded to 16 bits would choose other experts, and are not built in fp32 yet; use "
                "precision fp32");
  if (computes_heads(config, device, precision)) return;
  if (precision != DType::f32) {
    const char* name = precision == DType::bf16 ? "bf16" : "fp16";
    throw Error(ErrorKind::input, {"precision", name},
                fmt::format("the model's heads have size {}, and attention in {} on GPUs "
                            "needs a multiple of 8; use fp32",
                            config.head_dim, name));
  }
  throw Error(ErrorKind::input, {"precision", "fp32"},
              fmt::format("the model's heads have size {}, and attention in fp32 on GPUs "
                          "is built for at most 256; use bf16 or the CPU",
                          config.head_dim));
}

}  // namespace pipetrain
