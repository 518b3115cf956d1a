// Training jobs of the tests on GPUs.
#pragma once

#include <cstdlib>

#include "actors/golden_run.hpp"
#include "core/device.hpp"
#include "core/device_name.hpp"
#include "skip.hpp"

namespace pipetrain::test {

// The driver reads this at its first call: a stream must not queue after another rank's collective that waits for it.
[[maybe_unused]] inline const int many_queues = setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);

// Assigns the ranks to the first `gpus` GPUs; returns false, with a message, if there are fewer.
inline bool on_gpus(TrainJob& job, int gpus, const Precision& precision = {}) {
  if (!needs_gpus(cuda_device_count(), gpus)) return false;
  const int ranks = static_cast<int>(job.batch.dp) * job.layout.pp * job.layout.cp * job.layout.tp;
  job.devices.kind = DeviceKind::cuda;
  job.numerics.precision = precision;
  for (int rank = 0; rank < ranks; ++rank) job.devices.gpus.push_back(rank % gpus);
  return true;
}

// A model whose sizes 16-bit operations support.
inline ModelConfig half_config() {
  ModelConfig config;
  config.hidden = 256;
  config.layers = 4;
  config.heads = 4;
  config.kv_heads = 2;
  config.head_dim = 64;
  config.intermediate = 512;
  config.vocabulary = 260;
  config.max_positions = 128;
  config.init_std = 0.05;
  return config;
}

// Returns true if this machine's GPUs have these products.
inline bool computes(const Precision& precision) { return !precision.fp8_products || cuda_multiplies_fp8(0); }

}  // namespace pipetrain::test
