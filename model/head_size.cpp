#include "model/head_size.hpp"

#include <fmt/format.h>

#include "core/error.hpp"

namespace pipetrain {

bool computes_heads(const ModelConfig& config, DeviceKind device, DType precision) {
  if (device != DeviceKind::cuda) return true;
  return precision == DType::bf16 ? config.head_dim % 8 == 0 : config.head_dim <= 256;
}

void check_head_size(const ModelConfig& config, DeviceKind device, DType precision) {
  if (computes_heads(config, device, precision)) return;
  if (precision == DType::bf16) {
    throw Error(ErrorKind::input, {"precision", "bf16"},
                fmt::format("the model's heads have size {}, and attention in bf16 on GPUs "
                            "needs a multiple of 8; use fp32",
                            config.head_dim));
  }
  throw Error(ErrorKind::input, {"precision", "fp32"},
              fmt::format("the model's heads have size {}, and attention in fp32 on GPUs "
                          "is built for at most 256; use bf16 or the CPU",
                          config.head_dim));
}

}  // namespace pipetrain
