// Training jobs of the tests on GPUs.
#pragma once

#include <cstdlib>

#include "actors/golden_run.hpp"
#include "core/device.hpp"
#include "core/device_name.hpp"
#include "skip.hpp"

namespace pipetrain::test {

// Streams must not queue behind another rank's collective that waits for them; read by the driver at its first call.
[[maybe_unused]] inline const int many_queues = setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);

// The ranks dealt over the first `gpus` GPUs; false, with a message, where there are not as many.
inline bool on_gpus(TrainJob& job, int gpus, const Precision& precision = {}) {
  if (!needs_gpus(cuda_device_count(), gpus)) return false;
  const int ranks = static_cast<int>(job.batch.dp) * job.layout.pp * job.layout.cp * job.layout.tp;
  job.devices.kind = DeviceKind::cuda;
  job.numerics.precision = precision;
  for (int rank = 0; rank < ranks; ++rank) job.devices.gpus.push_back(rank % gpus);
  return true;
}

// Of sizes that the operations of 16 bits take.
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

// Whether this machine's GPUs have these products.
inline bool computes(const Precision& precision) { return !precision.fp8_products || cuda_multiplies_fp8(0); }

}  // namespace pipetrain::test
