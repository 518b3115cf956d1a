// Measures the cost of an action through the C API when the callbacks do nothing: like bench/actors.cpp, 8 stages, 64
// microbatches.
#include <pipetrain/pipetrain.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "bench/result.hpp"

namespace {

constexpr int stages = 8, microbatches = 64;
constexpr double actions = stages * (2 * microbatches + 2);  // F and B, N and O

void check(pipetrain_status status) {
  if (status == PIPETRAIN_OK) return;
  std::fprintf(stderr, "%s\n", pipetrain_last_error());
  std::exit(1);
}

struct Stage {
  pipetrain_stage* handle = nullptr;
};

int launch(void* user, const pipetrain_launch* launch) {
  auto* stage = static_cast<Stage*>(user)->handle;
  check(pipetrain_enqueued(stage, &launch->action));
  check(pipetrain_completed(stage, &launch->action, nullptr, nullptr, 0));
  return 0;
}

int run(void*, const pipetrain_launch*, double*, size_t, size_t*) { return 0; }

enum class Way { launch, run, run_on_any_thread };

struct Bench {
  Way way = Way::launch;
  std::vector<Stage> all = std::vector<Stage>(stages);
};

int make_compute(void* user, const pipetrain_stage_request* request, pipetrain_compute* compute) {
  auto* bench = static_cast<Bench*>(user);
  Stage& stage = bench->all[static_cast<std::size_t>(request->stage)];
  stage.handle = request->handle;
  compute->user = &stage;
  if (bench->way == Way::launch) {
    compute->launch = launch;
  } else {
    compute->run = run;
  }
  compute->any_thread = bench->way == Way::run_on_any_thread;
  return 0;
}

double microseconds_per_action(Way way) {
  const pipetrain_plan_request wanted{sizeof(pipetrain_plan_request), "1f1b", stages, 0, microbatches};
  pipetrain_plan* plan = nullptr;
  check(pipetrain_plan_build(&wanted, &plan));
  Bench bench;
  bench.way = way;
  pipetrain_pipeline_request request{};
  request.struct_size = sizeof request;
  request.plan = plan;
  request.user = &bench;
  request.make_compute = make_compute;
  pipetrain_pipeline* pipeline = nullptr;
  check(pipetrain_pipeline_create(&request, &pipeline));
  std::vector<double> times;
  for (int i = 1; i <= 60; ++i) {
    const pipetrain_step step{sizeof(pipetrain_step), i, 0, 1, 0, 0};
    const auto start = std::chrono::steady_clock::now();
    check(pipetrain_pipeline_step(pipeline, &step, nullptr, nullptr));
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (i > 10) times.push_back(seconds * 1e6 / actions);
  }
  check(pipetrain_pipeline_free(pipeline));
  check(pipetrain_plan_free(plan));
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

}  // namespace

int main() {
  using namespace pipetrain;
  const auto report = [](const char* name, Way way) {
    return bench::report(name, microseconds_per_action(way), "us/action", bench::Limit::at_most, 3);
  };
  bool all = report("c api launch", Way::launch);
  all &= report("c api run", Way::run);
  all &= report("c api run on any thread", Way::run_on_any_thread);
  return all ? 0 : 1;
}
