// The plan that a job keeps, and what a dry run says of a job.
#include "actors/training/job/job_plan.hpp"

#include "actors/training/rank/parallel_layout.hpp"
#include "actors/training/records/health_watch.hpp"
#include "actors/training/records/run_report.hpp"
#include "actors/training/run/job_description.hpp"
#include "actors/training/run/make_train_job.hpp"
#include "catch.hpp"
#include "schedules/plan/validate.hpp"

using namespace pipetrain;

TEST_CASE("a plan that was searched for is kept by its job and shared by all that ask for it") {
  RunSettings settings;
  settings.model.layers = 2;
  settings.data.sequence_length = 8;
  settings.batch = {1, 4, 1};
  settings.length.steps = 3;
  settings.layout.pp = 2;
  settings.layout.schedule = "auto";
  std::vector<std::string> notes;
  const TrainJob job = make_train_job(settings, notes);
  REQUIRE(job.plan != nullptr);
  CHECK_NOTHROW(schedules::validate(*job.plan));
  CHECK(&ParallelLayout(job).plan() == job.plan.get());
  const auto holders = job.plan.use_count();
  const HealthWatch watch(job, {});
  const RunReport report(job, "tiny", {});
  CHECK(job.plan.use_count() == holders + 2);
}

TEST_CASE("a job that was not made from settings has its plan built when it is laid out") {
  RunSettings settings;
  settings.data.sequence_length = 8;
  settings.batch = {1, 4, 1};
  settings.length.steps = 3;
  std::vector<std::string> notes;
  TrainJob job = make_train_job(settings, notes);
  const schedules::Plan kept = *job.plan;
  job.plan = nullptr;
  CHECK(ParallelLayout(job).plan().stages == kept.stages);
}

TEST_CASE("a dry run states how long a GPU copies its state after each step", "[copies]") {
  RunSettings settings;
  settings.data.sequence_length = 8;
  std::vector<std::string> notes;
  TrainJob job = make_train_job(settings, notes);
  job.keeps_copies = true;
  JobEstimate estimate = estimate_job(job);
  CHECK(estimate.copied_bytes == 0);  // there is no GPU
  CHECK_THAT(job_description(job, estimate), !Catch::Contains("a GPU copies"));
  estimate.copied_bytes = std::size_t{20} << 30;
  CHECK_THAT(
      job_description(job, estimate),
      Catch::Contains("; a GPU copies 20480.0 MiB after each step, during the next one (0.429 s over PCIe 5 at 50 GB/s)"));
}
