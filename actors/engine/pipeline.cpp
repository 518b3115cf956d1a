#include "actors/engine/pipeline.hpp"

#include <utility>

#include "actors/engine/pipeline_actors.hpp"
#include "core/error.hpp"

namespace pipetrain {

Pipeline::Pipeline(PipelineOptions options, const ComputeFactory& make_compute, const SourceFactory& make_source)
    : actors_(std::make_unique<PipelineActors>(std::move(options), make_compute, make_source)) {}

Pipeline::~Pipeline() = default;

namespace {

void check_leads(const PipelineActors& actors) {
  if (!actors.leads()) throw Error(ErrorKind::internal, "only process 0 runs steps and reads states");
}

}  // namespace

std::future<StepOutcome> Pipeline::start_step(const StepInfo& info, Decide decide, const std::optional<StepInfo>& coming) {
  check_leads(*actors_);
  auto outcome = std::make_shared<std::promise<StepOutcome>>();
  auto future = outcome->get_future();
  caf::anon_send(actors_->supervisor(), StartStep{info, std::move(decide), std::move(outcome), coming});
  return future;
}

void Pipeline::follow() {
  if (actors_->leads()) throw Error(ErrorKind::internal, "process 0 runs the steps and cannot follow");
  actors_->follow();
}

bool Pipeline::follow_for(std::chrono::milliseconds patience) {
  if (actors_->leads()) throw Error(ErrorKind::internal, "process 0 runs the steps and cannot follow");
  return actors_->follow_for(patience);
}

StepOutcome Pipeline::step(const StepInfo& info, Decide decide, const std::optional<StepInfo>& coming) {
  auto future = start_step(info, std::move(decide), coming);
  RunRecorder* const recorder = actors_->recorder();
  if (!recorder) return future.get();
  StepOutcome outcome;
  try {
    outcome = future.get();
  } catch (const RunFailed& failure) {
    try {
      recorder->step({info.step, info.kind, true, failure.logs()});
    } catch (const Error&) {
      // The first failure is the one to report.
    }
    throw;
  }
  recorder->step({info.step, info.kind, false, std::move(outcome.logs)});
  return outcome;
}

std::vector<std::string> Pipeline::waiting() {
  auto answer = std::make_shared<std::promise<std::vector<std::string>>>();
  auto future = answer->get_future();
  caf::anon_send(actors_->supervisor(),
                 AskWaiting{[answer](std::vector<std::string> lines) { answer->set_value(std::move(lines)); }});
  if (future.wait_for(std::chrono::seconds(2)) != std::future_status::ready) return {};
  return future.get();
}

std::vector<MemoryUse> Pipeline::memory() {
  check_leads(*actors_);
  auto answer = std::make_shared<std::promise<std::vector<MemoryUse>>>();
  auto future = answer->get_future();
  caf::anon_send(actors_->supervisor(), AskMemory{std::move(answer)});
  return future.get();
}

std::future<void> Pipeline::read_state(StageId id, StatePart part, float* out) {
  check_leads(*actors_);
  auto answer = std::make_shared<std::promise<void>>();
  auto future = answer->get_future();
  caf::anon_send(actors_->supervisor(), AskState{id, std::move(part), out, std::move(answer)});
  return future;
}

std::future<std::vector<std::string>> Pipeline::save_state(const std::string& where) {
  check_leads(*actors_);
  auto answer = std::make_shared<std::promise<std::vector<std::string>>>();
  auto future = answer->get_future();
  caf::anon_send(actors_->supervisor(), AskSave{where, std::move(answer)});
  return future;
}

void Pipeline::finish_step(std::chrono::milliseconds patience) {
  if (!actors_->leads()) return;
  caf::anon_send(actors_->supervisor(), FinishStep{patience});
}

void Pipeline::leave_step() {
  if (!actors_->leads()) return;
  caf::anon_send(actors_->supervisor(), LeaveStep{});
}

void Pipeline::abort(std::exception_ptr cause) { caf::anon_send(actors_->supervisor(), Failed{failure_of(cause)}); }

void Pipeline::stop_stage(StageId id) { caf::anon_send_exit(actors_->stage(id), caf::exit_reason::kill); }

const std::vector<schedules::StageNeeds>& Pipeline::needs() const { return actors_->needs(); }

}  // namespace pipetrain
