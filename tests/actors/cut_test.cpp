// Runs with a chosen cut give the bits of one stage wherever the cut is, and everything that depends on the cut follows it.
#include <algorithm>

#include "actors/training/checkpoint/checkpoint.hpp"
#include "actors/training/checkpoint/checkpoint_folder.hpp"
#include "actors/training/job/job_settings.hpp"
#include "actors/training/records/profile.hpp"
#include "actors/training/run/job_description.hpp"
#include "actors/training/run/job_memory.hpp"
#include "catch.hpp"
#include "core/error.hpp"
#include "schedules/builders/builders.hpp"
#include "temp_folder.hpp"
#include "thread_processes.hpp"
#include "tiny_run.hpp"

using namespace pipetrain;
using namespace pipetrain::test;
using schedules::Order;

namespace {

// Cuts 16 blocks over this many virtual stages, once as unevenly as possible and once rather unevenly.
std::vector<Cut> uneven_cuts(int parts) {
  const auto most_at = [&](int at) {
    Cut cut(static_cast<std::size_t>(parts), 1);
    cut[static_cast<std::size_t>(at)] = 17 - parts;
    return cut;
  };
  if (parts == 2) return {{15, 1}, {5, 11}};
  if (parts == 4) return {{1, 7, 3, 5}, most_at(2)};
  return {most_at(0), most_at(parts - 1)};
}

Layout cut_layout(const schedules::ScheduleInfo& schedule, int pp, const Cut& cut) {
  Layout layout{pp, 1, 1, 1, std::string(schedule.name), schedule.default_chunks};
  layout.cut = cut;
  return layout;
}

}  // namespace

namespace {

void check_every_cut_schedule(int pp) {
  const RunRecord plain = run(golden_job("llama2_tiny", {}), 3);
  for (const auto& schedule : schedules::all_schedules()) {
    for (const Cut& cut : uneven_cuts(pp * schedule.default_chunks)) {
      for (const auto order : {Order::planned, Order::ready}) {
        if (order == Order::ready && !schedule.has_ready_rule) continue;
        Layout layout = cut_layout(schedule, pp, cut);
        layout.order = order;
        INFO(to_string(layout));
        CHECK((run(golden_job("llama2_tiny", layout), 3) == plain));
      }
    }
  }
}

}  // namespace

TEST_CASE("every schedule and order gives the bits of one stage, wherever the model is cut", "[golden][cut]") {
  check_every_cut_schedule(2);
}

TEST_CASE("every schedule and order of four stages gives the bits of one, wherever the model is cut", "[golden][cut][slow]") {
  check_every_cut_schedule(4);
}

TEST_CASE("cuts follow the golden trajectories with tied weights, tensor-parallel ranks and divided or offloaded state",
          "[golden][cut]") {
  for (const std::string model : {"gpt2_tiny", "llama3_tiny"}) {
    const RunRecord plain = run(golden_job(model, {1, 2, 2, 1}), 3);
    for (const std::string schedule : {"interleaved", "zb-v"}) {
      for (const int zero : {0, 1, 3}) {
        if (zero != 1 && schedule == "interleaved") continue;
        Layout layout{2, 2, 2, 1, schedule, 2};
        layout.cut = {3, 6, 1, 6};
        layout.zero = zero;
        layout.parameters = layout.offload = zero == 0;
        layout.recompute = zero == 1 ? Recompute::full : Recompute::none;
        if (zero == 1) layout.recompute_layers = 1;
        INFO(model << " " << to_string(layout));
        CHECK((run(golden_job(model, layout), 3) == plain));
      }
    }
  }
}

TEST_CASE("slices and post-validation give their bits wherever the model is cut", "[cut]") {
  TinyRun tiny{.layers = 4, .sequence = 12, .microbatches = 4};
  tiny.layout.slices = 3;
  const RunRecord sliced = run(tiny);
  tiny.layout.pp = 2;
  for (const Cut& cut : {Cut{7, 1}, Cut{2, 6}}) {
    tiny.layout.cut = cut;
    INFO(to_string(tiny));
    CHECK((run(tiny) == sliced));
  }
  tiny = {.layers = 4, .microbatches = 4};
  const RunRecord plain = run(tiny);
  tiny.layout.pp = 2;
  tiny.layout.schedule = "zb-h2";
  tiny.layout.cut = {6, 2};
  TrainJob job = job_of(tiny);
  job.post_validation = true;
  CHECK((run(std::move(job), 2) == plain));
}

TEST_CASE("a run resumes at another cut to the bit", "[cut]") {
  const TempFolder folder;
  Layout layout{2, 1, 1, 1, "zb-v", 2};
  layout.cut = {1, 7, 6, 2};
  const RunRecord whole = run(golden_job("gpt2_tiny", layout), 4);
  {
    Trainer first(golden_job("gpt2_tiny", layout));
    for (int step = 0; step < 2; ++step) first.step();
    first.start_checkpoint(folder.path()).get();
  }
  Layout other = layout, level = layout, alone;
  other.cut = {8, 1, 1, 6};
  level.cut = {};
  for (const Layout& next : {other, level, alone}) {
    INFO(to_string(next));
    TrainJob job = golden_job("gpt2_tiny", next);
    const auto checkpoint = checkpoint_path(folder.path(), 2);
    job.initial = open_checkpoint(checkpoint, verify_checkpoint(checkpoint), job.config);
    job.steps_done = 2;
    const RunRecord rest = run(std::move(job), 2);
    CHECK(rest.loss == std::vector<double>(whole.loss.begin() + 2, whole.loss.end()));
    CHECK(rest.weights == whole.weights);
  }
}

TEST_CASE("the estimate of a cut is what its devices hold", "[cut]") {
  std::vector<std::size_t> totals;
  for (const Cut& cut : {Cut{}, Cut{13, 1, 1, 1}, Cut{1, 1, 1, 13}}) {
    Layout layout{4};
    layout.cut = cut;
    const TrainJob job = golden_job("llama2_tiny", layout);
    const JobEstimate estimate = estimate_job(job);
    const Trainer trainer(job);
    const auto taken = trainer.memory();
    REQUIRE(taken.size() == estimate.devices.size());
    for (std::size_t i = 0; i < taken.size(); ++i) CHECK(taken[i].use.total() == estimate.devices[i].use.total());
    totals.push_back(taken.front().use.total());
    CHECK_THAT(job_description(job, estimate),
               Catch::Matchers::Contains(cut.empty() ? "by cost)" : "cut " + cut_text(cut) + " (as given)"));
  }
  CHECK(totals[1] > totals[0]);  // the first stage's, by its blocks
  CHECK(totals[2] < totals[0]);
}

TEST_CASE("processes run a cut as one does, and agree on it first", "[processes][cut]") {
  TinyRun tiny{.layers = 4, .microbatches = 4, .layout = {.pp = 2, .schedule = "zb-v", .chunks = 2}};
  tiny.layout.cut = {1, 4, 1, 2};
  const RunRecord one = run(tiny);
  RunRecord two;
  const auto failures = in_processes(
      MemoryHub::make(2), [&](int) { return job_of(tiny); },
      [&](int process, TrainJob job) {
        if (process == 0) {
          two = run(std::move(job), 2);
        } else {
          Trainer(std::move(job)).follow();
        }
      });
  CHECK(failures == std::vector<std::string>(2));
  CHECK((two == one));

  RunSettings settings;
  const auto cut_of_settings = [&] {
    const NamedValues values = job_settings(settings);
    const auto found = std::find_if(values.begin(), values.end(), [](const auto& value) { return value.first == "cut"; });
    return found == values.end() ? "not compared" : found->second;
  };
  CHECK(cut_of_settings() == "");
  settings.layout.cut = {3, 5};
  CHECK(cut_of_settings() == "3,5");
}

TEST_CASE("a profile contains the cut of its run", "[cut]") {
  TinyRun tiny{.layers = 4, .layout = {.pp = 2}};
  const auto profiled = [&] {
    const TrainJob job = with_plan(job_of(tiny));
    ProfileRecorder recorder(job, "tiny");
    Trainer trainer(job);
    recorder.add(trainer.step());
    return recorder.profile().cut;
  };
  tiny.layout.cut = {7, 1};
  CHECK(profiled() == Cut{7, 1});
  tiny.layout.cut = {};
  const Cut by_cost = profiled();
  REQUIRE(by_cost.size() == 2);
  CHECK(by_cost[0] + by_cost[1] == 8);
}

TEST_CASE("a cut that does not go with the model or the layout is one line", "[cut]") {
  const auto error_of = [](const Cut& cut) -> std::string {
    TinyRun tiny{.layers = 4, .layout = {.pp = 2}};
    tiny.layout.cut = cut;
    try {
      Trainer trainer(job_of(tiny));
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::input);
      REQUIRE(error.setting());
      CHECK(error.setting()->name == "cut");
      return error.what();
    }
    return "no error";
  };
  CHECK(error_of({4, 4}) == "no error");
  CHECK_THAT(error_of({4, 5}), Catch::Matchers::Contains("must add up to the model's 8 attention and MLP blocks"));
  CHECK_THAT(error_of({4, 3}), Catch::Matchers::Contains("and adds up to 7"));
  CHECK_THAT(error_of({8, 0}), Catch::Matchers::Contains("virtual stage 1 is to hold 0 blocks"));
  CHECK_THAT(error_of({4, 2, 2}), Catch::Matchers::Contains("cuts the model into 3 parts, and the run has 2 virtual stages"));
}
