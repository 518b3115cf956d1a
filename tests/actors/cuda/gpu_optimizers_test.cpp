// Optimizers that step whole tensors on GPUs: beside the CPU; the same bits over stages, schedules, replicas and reruns; and
// checkpoints that the other kind of device continues.
#include <cmath>
#include <optional>

#include "actors/cuda/gpu_job.hpp"
#include "actors/early_steps.hpp"
#include "actors/training/saved_run.hpp"
#include "catch.hpp"
#include "model/optimizer/optimizer.hpp"
#include "temp_folder.hpp"

namespace pipetrain::test {
namespace {

const std::vector<std::string> gpu_whole_tensor_names = {"muon", "lamb", "adafactor", "came"};

TrainJob whole_tensor_job(const std::string& optimizer, const Layout& layout) {
  TrainJob job = random_job(half_config(), 64, 8, layout);
  job.optimizer = default_settings(optimizer);
  job.learning_rate.peak = 1e-3;
  return job;
}

std::optional<RunRecord> run_whole_tensors(const std::string& optimizer, const Layout& layout, const Precision& precision) {
  TrainJob job = whole_tensor_job(optimizer, layout);
  if (!on_gpus(job, 1, precision)) return std::nullopt;
  return run(std::move(job), 4);
}

void check_losses(const RunRecord& record, const RunRecord& reference, double tolerance) {
  REQUIRE(record.loss.size() == reference.loss.size());
  for (std::size_t step = 0; step < record.loss.size(); ++step)
    CHECK(std::abs(record.loss[step] / reference.loss[step] - 1) <= tolerance);
}

}  // namespace

TEST_CASE("optimizers of whole tensors follow the CPU on one GPU, in fp32 and bf16, and with tensor parallelism",
          "[gpu][optimizer]") {
  for (const std::string& name : gpu_whole_tensor_names) {
    INFO(name);
    const RunRecord reference = run(whole_tensor_job(name, {1, 1, 1, 2}), 4);
    const auto single = run_whole_tensors(name, {1, 1, 1, 2}, Precision::fp32());
    if (!single) return;
    const double tolerance = name == "muon" ? 5e-3 : 2e-4;  // muon's products on GPUs are of bf16
    check_losses(*single, reference, tolerance);
    CHECK(reference.loss.back() < reference.loss.front());
    check_losses(*run_whole_tensors(name, {1, 2, 1, 2}, Precision::fp32()), reference, 2 * tolerance);
    check_losses(*run_whole_tensors(name, {1, 1, 1, 2}, Precision::bf16()), reference, 1e-2);
    check_losses(*run_whole_tensors(name, {1, 2, 1, 2}, Precision::bf16()), reference, 1e-2);
  }
}

TEST_CASE("optimizers of whole tensors give the same bits on a GPU over stages, schedules, the stages of ZeRO and reruns",
          "[gpu][optimizer]") {
  for (const std::string& name : gpu_whole_tensor_names) {
    for (const Precision& precision : {Precision::fp32(), Precision::bf16()}) {
      const auto expected = run_whole_tensors(name, {1, 1, 2, 1}, precision);
      if (!expected) return;
      for (Layout layout : {Layout{1, 1, 2, 1}, Layout{2, 1, 2, 1, "zb-v", 2}}) {
        for (const int zero : {0, 1, 3}) {
          layout.zero = zero;
          INFO(name << ", " << to_string(layout) << ", 16 bits " << (precision == Precision::bf16()));
          CHECK((*run_whole_tensors(name, layout, precision) == *expected));
        }
      }
    }
  }
}

TEST_CASE("checkpoints of optimizers of whole tensors continue on GPUs and on the CPU", "[gpu][optimizer]") {
  for (const std::string& name : gpu_whole_tensor_names) {
    INFO(name);
    const auto whole = run_whole_tensors(name, {1, 1, 2, 1}, Precision::fp32());
    if (!whole) return;
    const TempFolder folder;
    TrainJob on_gpu = whole_tensor_job(name, {1, 1, 2, 1}), rest = whole_tensor_job(name, {2, 1, 2, 1});
    on_gpus(on_gpu, 1), on_gpus(rest, 1);
    const auto saved = saved_after(on_gpu, 2, folder.path());
    CHECK((run(continued_job(saved, rest), 2).weights == whole->weights));
    const RunRecord on_cpu = run(continued_job(saved, whole_tensor_job(name, {1, 1, 2, 1})), 2);
    const TempFolder other;
    const auto saved_on_cpu = saved_after(whole_tensor_job(name, {1, 1, 2, 1}), 2, other.path());
    const RunRecord back = run(continued_job(saved_on_cpu, on_gpu), 2);
    const double tolerance = name == "muon" ? 5e-3 : 2e-4;
    for (std::size_t step = 0; step < 2; ++step) {
      CHECK(std::abs(on_cpu.loss[step] / whole->loss[step + 2] - 1) <= tolerance);
      CHECK(std::abs(back.loss[step] / whole->loss[step + 2] - 1) <= tolerance);
    }
  }
}

TEST_CASE("post-validation on a GPU gives optimizers of whole tensors the bits of steps that wait",
          "[gpu][optimizer][post-validation]") {
  for (const std::string name : {"muon", "came"}) {
    INFO(name);
    TrainJob job = whole_tensor_job(name, {2, 1, 1, 1, "zb-h2"});
    if (!on_gpus(job, 1, Precision::bf16())) return;
    job.clip_norm = some_clip(job, 5);
    const Steps early = steps_of(job, true, 5);
    CHECK(early.same_bits(steps_of(job, false, 5)));
    CHECK(early.previewed > 0);
  }
}

}  // namespace pipetrain::test
