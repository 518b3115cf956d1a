// Replicas on GPUs that sum their gradients in few bits: losses near those of fp32 sums; the same bits over stages, schedules
// and reruns, also from a checkpoint.
#include <optional>

#include "actors/cuda/gpu_job.hpp"
#include "actors/training/compressed_cases.hpp"
#include "actors/training/saved_run.hpp"
#include "catch.hpp"
#include "temp_folder.hpp"

namespace pipetrain::test {
namespace {

TrainJob coded_job(const Layout& layout, BlockCode code) {
  return with_compressed_gradients(random_job(half_config(), 32, 8, layout), code);
}

std::optional<RunRecord> run_coded(const Layout& layout, BlockCode code, const Precision& precision, std::int64_t steps) {
  TrainJob job = coded_job(layout, code);
  if (!on_gpus(job, 1, precision)) return std::nullopt;
  return run(std::move(job), steps);
}

}  // namespace

TEST_CASE("compressed gradients on GPUs have losses near those of fp32 sums", "[gpu][compress]") {
  for (const Precision& precision : {Precision::fp32(), Precision::bf16()}) {
    for (const Layout& layout : {Layout{1, 1, 2, 1}, with_zero({1, 1, 2, 1}, 1), Layout{1, 2, 2, 1}}) {
      for (const BlockCode code : {BlockCode::int8, BlockCode::sign}) {
        if (code == BlockCode::sign && layout.zero > 0) continue;
        INFO(to_string(layout) << ", " << name_of(code) << ", 16 bits " << (precision == Precision::bf16()));
        TrainJob plain = coded_job(layout, code);
        plain.compression = {};
        if (!on_gpus(plain, 1, precision)) return;
        const RunRecord expected = run(plain, 20), coded = *run_coded(layout, code, precision, 20);
        CHECK((coded.weights != expected.weights));
        CHECK(coded.loss.back() < coded.loss.front());
        for (std::size_t step = 0; code == BlockCode::int8 && step < expected.loss.size(); ++step)
          CHECK(coded.loss[step] == Approx(expected.loss[step]).epsilon(0.01));
        if (code == BlockCode::sign) CHECK(coded.loss.back() < 1.15 * expected.loss.back());
      }
    }
  }
}

TEST_CASE("compressed gradients on GPUs give the same bits over stages, schedules and reruns", "[gpu][compress]") {
  for (const auto& [code, zero, steps] : compressed_cases) {
    for (const Precision& precision : {Precision::fp32(), Precision::bf16()}) {
      const auto expected = run_coded(with_zero({1, 1, 2, 1}, zero), code, precision, steps);
      if (!expected) return;
      for (const Layout& layout : {Layout{1, 1, 2, 1}, Layout{2, 1, 2, 1, "zb-v", 2}, Layout{2, 1, 2, 1, "zb-h1"}}) {
        INFO(to_string(layout) << ", " << name_of(code) << ", zero " << zero << ", 16 bits "
                               << (precision == Precision::bf16()));
        CHECK((*run_coded(with_zero(layout, zero), code, precision, steps) == *expected));
      }
    }
  }
}

TEST_CASE("a run on GPUs with compressed gradients resumes from a checkpoint to the bit, on other stages too",
          "[gpu][compress]") {
  for (const auto& [code, zero, steps] : compressed_cases) {
    INFO(name_of(code) << ", zero " << zero);
    const auto whole = run_coded(with_zero({1, 1, 2, 1}, zero), code, Precision::bf16(), steps + 1);
    if (!whole) return;
    const TempFolder folder;
    TrainJob first = coded_job(with_zero({2, 1, 2, 1}, zero), code), rest = coded_job(with_zero({1, 1, 2, 1}, zero), code);
    on_gpus(first, 1, Precision::bf16()), on_gpus(rest, 1, Precision::bf16());
    const auto saved = saved_after(first, static_cast<int>(steps) - 1, folder.path());
    CHECK((run(continued_job(saved, rest), 2).weights == whole->weights));
  }
}

TEST_CASE("gradients that are compressed between hosts alone have the same bits on GPUs over stages", "[gpu][compress]") {
  for (const auto& [code, steps] : {std::pair(BlockCode::int8, std::int64_t{3}), std::pair(BlockCode::sign, std::int64_t{8})}) {
    const auto record = [code = code, steps = steps](const Layout& layout) -> std::optional<RunRecord> {
      TrainJob job = coded_job(layout, code);
      job.compression.hosts = 2;
      if (!on_gpus(job, 1, Precision::bf16())) return std::nullopt;
      return run(std::move(job), steps);
    };
    const auto expected = record({1, 1, 4, 1});
    if (!expected) return;
    INFO(name_of(code));
    CHECK(expected->loss.back() < expected->loss.front());
    CHECK((*record({1, 1, 4, 1}) == *expected));
    CHECK((*record({2, 1, 4, 1, "zb-h1"}) == *expected));
  }
}

TEST_CASE("compressed weights on GPUs have losses near those in full, and the same bits over stages and stages of ZeRO",
          "[gpu][compress]") {
  const auto record = [](const Layout& layout, BlockCode code) -> std::optional<RunRecord> {
    TrainJob job = coded_job(layout, BlockCode::none);
    job.compression.weights = code;
    if (!on_gpus(job, 1, Precision::bf16())) return std::nullopt;
    return run(std::move(job), 10);
  };
  const auto full = record(with_zero({1, 1, 2, 1}, 3), BlockCode::none);
  if (!full) return;
  const RunRecord coded = *record(with_zero({1, 1, 2, 1}, 3), BlockCode::int8);
  CHECK((coded.weights != full->weights));
  for (std::size_t step = 0; step < coded.loss.size(); ++step)
    CHECK(coded.loss[step] == Approx(full->loss[step]).epsilon(0.02));
  for (const Layout& layout : {Layout{1, 1, 2, 1}, Layout{2, 1, 2, 1, "zb-h1"}}) {
    for (const int zero : {1, 2, 3}) {
      INFO(to_string(layout) << ", zero " << zero);
      CHECK((*record(with_zero(layout, zero), BlockCode::int8) == coded));
    }
  }
}

}  // namespace pipetrain::test
