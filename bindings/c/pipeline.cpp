// Pipelines of the C API.
#include <chrono>
#include <cmath>

#include "bindings/c/call.hpp"
#include "bindings/c/convert.hpp"
#include "bindings/c/handles.hpp"
#include "bindings/c/stage_callbacks.hpp"
#include "bindings/c/structs.hpp"
#include "core/error.hpp"

using namespace pipetrain;
using namespace pipetrain::c_api;

namespace {

constexpr double longest_seconds = 1e8;

std::chrono::milliseconds read_seconds(double seconds, const char* name, std::chrono::milliseconds otherwise) {
  if (seconds == 0) return otherwise;
  if (!(seconds >= 0.001 && seconds <= longest_seconds))
    throw Error(ErrorKind::input, std::string(name) + ": must be 0, or from 0.001 to 1e8 seconds");
  return std::chrono::milliseconds(std::llround(seconds * 1000));
}

PipelineOptions read_options(const pipetrain_pipeline_request& request) {
  constexpr int most_replicas = 4096;
  if (request.replicas < 0 || request.replicas > most_replicas)
    throw Error(ErrorKind::input, "replicas: " + std::to_string(request.replicas) + "; use 0 to 4096");
  PipelineOptions options;
  options.plan = *plans().get(request.plan);
  const Rules rules = read_rules(null_if_zero(request.rules));
  options.order = rules.order;
  options.slot_life = rules.life;
  options.run_ahead = rules.run_ahead;
  options.replicas = request.replicas == 0 ? 1 : request.replicas;
  options.grace = read_seconds(request.grace_seconds, "grace_seconds", options.grace);
  options.stall = read_seconds(request.stall_seconds, "stall_seconds", options.stall);
  return options;
}

pipetrain_compute read_compute(const pipetrain_compute& given) {
  const pipetrain_compute compute = read_struct(&given, "compute");
  if ((compute.launch == nullptr) == (compute.run == nullptr))
    throw Error(ErrorKind::input, "make_compute: exactly one of launch and run must be set");
  if (compute.any_thread != 0 && compute.any_thread != 1)
    throw Error(ErrorKind::input, "make_compute: any_thread: " + std::to_string(compute.any_thread) + "; use 0 or 1");
  if (compute.any_thread != 0 && compute.launch != nullptr)
    throw Error(ErrorKind::input, "make_compute: any_thread goes with run; leave it 0 with launch");
  return compute;
}

// Makes the computes of a pipeline, and the handles of its stages.
class StageMaker {
 public:
  StageMaker(const pipetrain_pipeline_request& request, PipelineHandle& handle, schedules::Placement placement)
      : request_(request), handle_(handle), placement_(std::move(placement)) {}

  Guest operator()(const GuestRequest& stage) const {
    handle_.stages.push_back(stages().add(stage.stage));
    std::vector<pipetrain_chunk_needs> needs;
    for (const auto& chunk : stage.needs.chunks) needs.push_back(to_c(chunk));
    const pipetrain_stage_request asked{sizeof(pipetrain_stage_request),    stage.id.replica, stage.id.stage,
                                        static_cast<int32_t>(needs.size()), needs.data(),     handle_.stages.back()};
    pipetrain_compute compute{};
    compute.struct_size = sizeof(pipetrain_compute);
    {
      const CallbackWatch::Call call(*stage.watch, {.call = "make_compute", .stage = &stage.id});
      check_callback(request_.make_compute(request_.user, &asked, &compute), "make_compute");
    }
    return make_callback_guest(read_compute(compute), stage.id, placement_);
  }

 private:
  const pipetrain_pipeline_request& request_;
  PipelineHandle& handle_;
  schedules::Placement placement_;
};

void remove_stages(PipelineHandle& handle) {
  for (const auto* stage : std::exchange(handle.stages, {})) stages().remove(stage);
}

StepInfo read_step(const pipetrain_step* given) {
  const pipetrain_step step = read_struct(given, "step");
  if (step.step < 1) throw Error(ErrorKind::input, "step.step: " + std::to_string(step.step) + "; steps count from 1");
  if (step.evaluation != 0 && step.evaluation != 1)
    throw Error(ErrorKind::input, "step.evaluation: " + std::to_string(step.evaluation) + "; use 0 or 1");
  StepInfo info{step.step, step.microbatches, step.tokens, step.learning_rate};
  if (step.evaluation == 1) info.kind = schedules::StepKind::evaluation;
  return info;
}

ActionTimes read_times(const pipetrain_times* given) {
  if (given == nullptr) return {};
  const pipetrain_times times = read_struct(given, "times");
  if (!(std::abs(times.start) <= longest_seconds && std::abs(times.end) <= longest_seconds))
    throw Error(ErrorKind::input, "times: must be finite, and at most 1e8 seconds from their origin");
  const auto point = [](double seconds) {
    return std::chrono::steady_clock::time_point(
        std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(seconds)));
  };
  return {point(times.start), point(times.end)};
}

}  // namespace

pipetrain_status pipetrain_pipeline_create(const pipetrain_pipeline_request* given, pipetrain_pipeline** pipeline) {
  return guarded([&] {
    require(pipeline, "pipeline");
    const pipetrain_pipeline_request request = read_struct(given, "request");
    if (request.make_compute == nullptr) throw Error(ErrorKind::input, "make_compute: a null pointer; give one");
    PipelineOptions options = read_options(request);
    auto handle = std::make_shared<PipelineHandle>();
    const StageMaker make_compute(request, *handle, options.plan.placement);
    try {
      handle->pipeline = std::make_unique<GuestPipeline>(std::move(options), make_compute,
                                                         [&](int replica) { return make_callback_source(request, replica); });
    } catch (...) {
      remove_stages(*handle);
      throw;
    }
    *pipeline = pipelines().add(std::move(handle));
  });
}

pipetrain_status pipetrain_pipeline_step(pipetrain_pipeline* pipeline, const pipetrain_step* step, pipetrain_decide decide,
                                         void* user) {
  return guarded([&] { pipelines().get(pipeline)->pipeline->step(read_step(step), make_callback_decide(decide, user)); });
}

pipetrain_status pipetrain_pipeline_abort(pipetrain_pipeline* pipeline, const char* why) {
  return guarded([&] {
    const auto found = pipelines().get(pipeline);
    require(why, "why");
    found->pipeline->abort(why);
  });
}

pipetrain_status pipetrain_pipeline_waiting(pipetrain_pipeline* pipeline, char* text, size_t capacity, size_t* length) {
  return guarded([&] {
    std::string lines;
    for (const std::string& line : pipelines().get(pipeline)->pipeline->waiting()) lines += line + '\n';
    give_text(lines, text, capacity, length);
  });
}

pipetrain_status pipetrain_pipeline_timeline(pipetrain_pipeline* pipeline, pipetrain_timeline** timeline) {
  return guarded([&] {
    const auto found = pipelines().get(pipeline);
    require(timeline, "timeline");
    *timeline = timelines().add(std::make_shared<const TimelineHandle>(TimelineHandle{found->pipeline->timeline(), {}}));
  });
}

pipetrain_status pipetrain_pipeline_free(pipetrain_pipeline* pipeline) {
  return guarded([&] {
    if (pipeline == nullptr) return;
    const auto found = pipelines().get(pipeline);
    found->pipeline->close();
    remove_stages(*found);
    pipelines().remove(pipeline);
  });
}

pipetrain_status pipetrain_enqueued(pipetrain_stage* stage, const pipetrain_action* action) {
  return guarded([&] { stages().get(stage)->enqueued(from_c(action)); });
}

pipetrain_status pipetrain_completed(pipetrain_stage* stage, const pipetrain_action* action, const pipetrain_times* times,
                                     const double* results, size_t count) {
  return guarded([&] {
    const auto found = stages().get(stage);
    constexpr std::size_t most_results = 1 << 20;
    if (count > most_results)
      throw Error(ErrorKind::input,
                  "count: " + std::to_string(count) + " results; give at most " + std::to_string(most_results));
    if (count > 0) require(results, "results");
    found->completed(from_c(action), read_times(times), StageResult(results, results + count));
  });
}

pipetrain_status pipetrain_failed(pipetrain_stage* stage, const char* why) {
  return guarded([&] {
    const auto found = stages().get(stage);
    require(why, "why");
    found->failed(std::make_exception_ptr(Error(ErrorKind::internal, why)));
  });
}
