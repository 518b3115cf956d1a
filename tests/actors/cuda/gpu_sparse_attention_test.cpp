// Runs on GPUs whose settings say what attention sees, beside the same runs on the CPU and in other layouts.
#include <optional>

#include "actors/cuda/gpu_job.hpp"
#include "actors/training/job/attention_settings.hpp"
#include "catch.hpp"

using namespace pipetrain;
using namespace pipetrain::test;

namespace {

TrainJob sparse_gpu_job(const AttentionSettings& attention, const Layout& layout) {
  ModelConfig config = half_config();
  config.max_positions = 256;
  set_attention(attention, config);
  return random_job(config, 256, 4, layout);
}

std::optional<RunRecord> run_sparse_on_gpu(const AttentionSettings& attention, const Layout& layout,
                                           const Precision& precision) {
  TrainJob job = sparse_gpu_job(attention, layout);
  if (!on_gpus(job, 1, precision)) return std::nullopt;
  return run(std::move(job), 3);
}

const AttentionSettings sparse_settings[] = {{64, 16, ""}, {0, 0, "fixed"}, {0, 0, "longformer"}, {64, 3, "full,window,fixed"}};

}  // namespace

TEST_CASE("sinks and patterns of attention train on a GPU as on the CPU, in every layout", "[gpu][sparse]") {
  for (const AttentionSettings& attention : sparse_settings) {
    INFO("window " << attention.window << ", " << attention.patterns);
    const auto found = run_sparse_on_gpu(attention, {1, 1, 1, 1}, Precision::fp32());
    if (!found) return;
    const RunRecord expected = run(sparse_gpu_job(attention, {1, 1, 1, 1}), 3);
    Layout shared{1, 1, 1, 1}, sliced{1, 1, 1, 1};
    shared.cp = 2, sliced.slices = 2;
    const auto in_ring = run_sparse_on_gpu(attention, shared, Precision::fp32());
    const auto in_slices = run_sparse_on_gpu(attention, sliced, Precision::fp32());
    for (std::size_t step = 0; step < 3; ++step)
      for (const RunRecord* one : {&*found, &*in_ring, &*in_slices}) {
        CHECK(one->loss[step] == Approx(expected.loss[step]).epsilon(2e-5));
        CHECK(one->grad_norm[step] == Approx(expected.grad_norm[step]).epsilon(2e-4));
      }
  }
}

TEST_CASE("sinks and patterns of attention in bf16 give the same bits on a GPU at every pp, again and recomputed",
          "[gpu][sparse]") {
  for (const AttentionSettings& attention : sparse_settings) {
    INFO("window " << attention.window << ", " << attention.patterns);
    const auto one = run_sparse_on_gpu(attention, {1, 1, 1, 2}, Precision::bf16());
    if (!one) return;
    const auto exact = run_sparse_on_gpu(attention, {1, 1, 1, 2}, Precision::fp32());
    CHECK(one->loss.front() == Approx(exact->loss.front()).epsilon(5e-3));
    Layout recomputed{1, 1, 1, 2};
    recomputed.recompute = Recompute::full;
    for (const Layout& layout : {Layout{1, 1, 1, 2}, Layout{2, 1, 1, 2, "zb-h1"}, recomputed}) {
      INFO(to_string(layout));
      CHECK((*run_sparse_on_gpu(attention, layout, Precision::bf16()) == *one));
    }
    Layout shared{1, 1, 1, 2}, sliced{1, 1, 1, 2};
    shared.cp = 2, sliced.slices = 2;
    for (const Layout& layout : {shared, sliced}) {
      INFO(to_string(layout));
      CHECK(run_sparse_on_gpu(attention, layout, Precision::bf16())->loss.front() == Approx(one->loss.front()).epsilon(5e-3));
    }
  }
}
