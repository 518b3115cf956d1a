// Helpers for tests of single operations: one rank of a backend with random inputs, and the loop over backends and types.
#pragma once

#include <random>

#include "catch.hpp"
#include "ops/ops_fixture.hpp"
#include "skip.hpp"

namespace pipetrain::testing {

// Statistics, weight gradients and optimizer state are f32 whatever type the activations have.
constexpr double statistics_tolerance = 1e-5;

struct Bench {
  TestTeam& team;
  TestRank& rank;
  DType dtype;
  double tolerance;
  std::mt19937_64 random{20240521};

  Values draw(const Shape& shape, double deviation = 1) { return random_values(shape, random, dtype, deviation); }
  Values draw_f32(const Shape& shape, double deviation = 1) { return random_values(shape, random, DType::f32, deviation); }
  Tensor put(const Values& values) { return rank.put(values, dtype); }
  Tensor put_f32(const Values& values) { return rank.put(values, DType::f32); }
  Tensor poisoned(const Shape& shape) { return rank.poisoned(shape, dtype); }
};

inline bool on_cpu(const Bench& bench) { return bench.rank.device().id().kind == DeviceKind::cpu; }

// Runs `check` for every backend and type of activations.
inline void on_every_backend(const std::function<void(Bench&)>& check) {
  for (const OpsBackend* backend : ops_backends()) {
    for (const DType dtype : backend->dtypes()) {
      INFO(backend->name() << " " << to_string(dtype));
      TestTeam team(*backend, 1);
      Bench bench{team, team[0], dtype, backend->tolerance(dtype)};
      check(bench);
    }
  }
}

// Runs `check` with fp32 for every backend; the CPU is the first one.
inline void on_each_backend_once(const std::function<void(Bench&)>& check) {
  for (const OpsBackend* backend : ops_backends()) {
    INFO(backend->name());
    TestTeam team(*backend, 1);
    Bench bench{team, team[0], DType::f32, backend->tolerance(DType::f32)};
    check(bench);
  }
}

// Runs `check` for every type of activations on the GPU; skips the test where there is none.
inline void on_gpu(const std::function<void(Bench&)>& check) {
  for (const OpsBackend* backend : ops_backends()) {
    if (backend->name() != "cuda") continue;
    for (const DType dtype : backend->dtypes()) {
      INFO(to_string(dtype));
      TestTeam team(*backend, 1);
      Bench bench{team, team[0], dtype, backend->tolerance(dtype)};
      check(bench);
    }
    return;
  }
  test::needs_gpus(0);
}

}  // namespace pipetrain::testing
