#include "actors/golden_run.hpp"
#include "actors/training/job/combinations.hpp"
#include "actors/training/job/job_check.hpp"
#include "actors/training/job/train_job.hpp"
#include "catch.hpp"
#include "core/error.hpp"

using namespace pipetrain;
using namespace pipetrain::test;
using Catch::Matchers::Contains;

namespace {

TrainJob fp8_job() {
  TrainJob job;
  job.config.hidden = 64;
  job.config.layers = 4;
  job.config.heads = job.config.kv_heads = 4;
  job.config.head_dim = 16;
  job.config.intermediate = 128;
  job.numerics.precision = Precision::fp8();
  job.devices.kind = DeviceKind::cuda;
  return job;
}

// Returns "precision fp8: why", or "taken".
std::string fp8_refusal(const TrainJob& job) {
  try {
    check_combinations(features_of(job));
    check_fp8_sizes(job);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::input);
    return error.what();
  }
  return "taken";
}

}  // namespace

TEST_CASE("fp8 is refused on devices without its products, and the error says what to use instead") {
  TrainJob job = fp8_job();
  job.layout.tp = 4;
  CHECK(fp8_refusal(job) == "taken");
  job.config.intermediate = 96;
  CHECK_THAT(fp8_refusal(job), Contains("intermediate size is 96 over 4 ranks") && Contains("or a smaller tp"));
  job = fp8_job();
  job.config.experts = {.count = 4, .chosen = 2, .intermediate = 40};
  CHECK_THAT(fp8_refusal(job), Contains("experts' intermediate size is 40") && Contains("16"));
  job = fp8_job();
  job.zero.stage = 3;
  CHECK(fp8_refusal(job) == "taken");
  job = fp8_job();
  job.config.intermediate = 100;
  CHECK_THAT(fp8_refusal(job), Contains("intermediate size is 100") && Contains("16"));
  job = fp8_job();
  job.devices.kind = DeviceKind::cpu;
  CHECK_THAT(fp8_refusal(job), Contains("CPU") && Contains("fp32"));
}

TEST_CASE("layers that stay in bf16 are those of a run in fp8, and leave some") {
  TrainJob job = fp8_job();
  job.numerics.bf16_layers = {.at_start = 1, .at_end = 3};
  CHECK_THAT(fp8_refusal(job), Contains("num-layers-at-start-in-bf16 1") && Contains("of the model's 4"));
  job.numerics = {};
  CHECK(fp8_refusal(job) == "taken");
  job.numerics.bf16_layers.at_end = 2;
  CHECK_THAT(fp8_refusal(job), Contains("num-layers-at-end-in-bf16 2") && Contains("only a run in fp8 keeps layers in bf16"));
}

TEST_CASE("scales of tiles need microbatches whose tokens they divide") {
  for (const auto& [sequence, microbatch, taken] : {std::tuple(30, 1, false), {30, 2, true}, {64, 1, true}, {33, 2, false}}) {
    TrainJob job = fp8_job();
    job.config.vocabulary = 256;  // that of the text built into the program
    job.dataset = random_job(job.config, sequence, 4, {}).dataset;
    job.batch.microbatch = microbatch;
    CHECK(fp8_refusal(job) == "taken");
    job.numerics.precision = Precision::fp8_of_blocks();
    if (taken) {
      CHECK(fp8_refusal(job) == "taken");
    } else {
      CHECK_THAT(fp8_refusal(job),
                 Contains("fp8-recipe blockwise: ") && Contains("no multiple of 4") && Contains("tensorwise"));
    }
  }
}
