#include "bindings/host/hosted_compute.hpp"

#include <utility>

namespace pipetrain {

HostedCompute::HostedCompute(std::shared_ptr<StageCompute> compute, std::shared_ptr<HostedStage> stage,
                             std::shared_ptr<CallbackWatch> watch)
    : compute_(std::move(compute)), stage_(std::move(stage)), watch_(std::move(watch)) {}

std::vector<SlotHandle> HostedCompute::make_slots(schedules::InputKind kind, int chunk, int count) {
  const auto call = watched("make_slots");
  return compute_->make_slots(kind, chunk, count);
}

void HostedCompute::attach(std::shared_ptr<StageEvents> events) { stage_->open(std::move(events)); }

void HostedCompute::begin_step(const StepInfo& step) {
  const auto call = watched("begin_step");
  compute_->begin_step(step);
}

void HostedCompute::launch(const Launch& launch) {
  stage_->launched(launch.action);
  const auto call = watched("launch", &launch.action);
  compute_->launch(launch);
}

void HostedCompute::verdict(const Verdict& verdict) {
  const auto call = watched("verdict");
  compute_->verdict(verdict);
}

void HostedCompute::abort(std::exception_ptr cause) noexcept {
  const auto call = watched("abort");
  compute_->abort(std::move(cause));
}

std::string text_of(const std::exception_ptr& cause) {
  try {
    std::rethrow_exception(cause);
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "something was thrown that is no exception";
  }
}

}  // namespace pipetrain
