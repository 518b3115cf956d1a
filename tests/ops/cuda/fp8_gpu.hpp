// What tests of matrices in 8 bits begin with.
#pragma once

#include "core/device_name.hpp"
#include "ops/ops_fixture.hpp"
#include "skip.hpp"

namespace pipetrain::testing {

// Null, and the case is skipped, where there is no GPU that multiplies in 8 bits.
inline const OpsBackend* gpu_with_fp8() {
  for (const OpsBackend* backend : ops_backends()) {
    if (backend->name() != "cuda") continue;
    if (cuda_multiplies_fp8(0)) return backend;
    test::skip("this GPU does not multiply in 8 bits");
    return nullptr;
  }
  test::needs_gpus(0);
  return nullptr;
}

}  // namespace pipetrain::testing
