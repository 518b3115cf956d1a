#include "bindings/c/stage_callbacks.hpp"

#include <cmath>
#include <utility>

#include "actors/engine/noop_compute.hpp"
#include "bindings/c/call.hpp"
#include "bindings/c/convert.hpp"
#include "bindings/c/slots.hpp"
#include "core/error.hpp"

namespace pipetrain::c_api {

namespace {

pipetrain_step step_to_c(const StepInfo& step) {
  return {sizeof(pipetrain_step), step.step, step.microbatches, step.tokens, step.learning_rate, step.evaluates()};
}

class CallbackStage : public GuestStage {
 public:
  CallbackStage(const pipetrain_compute& table, StageId id, schedules::Placement placement)
      : table_(table), id_(id), placement_(std::move(placement)) {}
  ~CallbackStage() override {
    if (table_.destroy != nullptr) table_.destroy(table_.user);
  }
  CallbackStage(const CallbackStage&) = delete;
  CallbackStage& operator=(const CallbackStage&) = delete;

  std::vector<SlotHandle> make_slots(schedules::InputKind kind, int chunk, int count) override {
    const SlotSet slots(count);
    if (table_.make_slots != nullptr) {
      const auto pointers = slots.pointers();
      check_callback(table_.make_slots(table_.user, static_cast<int32_t>(kind), chunk, pointers.data(), pointers.size()),
                     "make_slots");
    }
    return slots.handles();
  }

  void begin_step(const StepInfo& info) override {
    const pipetrain_step step = step_to_c(info);
    if (table_.begin_step != nullptr) check_callback(table_.begin_step(table_.user, &step), "begin_step");
  }

  void verdict(const Verdict& given) override {
    const pipetrain_verdict verdict{sizeof(pipetrain_verdict), given.apply, given.grad_scale};
    if (table_.verdict != nullptr) check_callback(table_.verdict(table_.user, &verdict), "verdict");
  }

  void abort(const std::string& why) noexcept override {
    if (table_.abort == nullptr) return;
    try {
      table_.abort(table_.user, why.c_str());
    } catch (...) {  // the run has failed already, with its first cause
    }
  }

  void launch(const Launch& launch) override {
    const pipetrain_launch view = view_of(launch);
    check_callback(table_.launch(table_.user, &view), "launch");
  }

  StageResult run(const Launch& launch) override {
    constexpr std::size_t most_results = 4096;
    const pipetrain_launch view = view_of(launch);
    StageResult results(launch.action.kind == schedules::ActionKind::norm ? most_results : 0);
    std::size_t count = 0;
    check_callback(table_.run(table_.user, &view, results.data(), results.size(), &count), "run");
    if (count > results.size())
      throw Error(ErrorKind::input, "run of " + to_string(launch.action) + ": it set " + std::to_string(count) +
                                        " results where " + std::to_string(results.size()) + " are allowed");
    results.resize(count);
    return results;
  }

 private:
  pipetrain_launch view_of(const Launch& launch) const {
    const auto input = [&](const SlotHandle& slot, const char* name) -> const pipetrain_slot* {
      const std::string fault = slot ? content_fault(*slot_of(slot)) : std::string();
      if (!fault.empty())
        throw Error(ErrorKind::input, std::string("the ") + name + " of " + to_string(launch.action, 2) + ": " + fault);
      return slot_of(slot);
    };
    return {sizeof(pipetrain_launch),
            c_api::to_c(launch.action),
            placement_.virtual_stage(id_.stage, launch.action.chunk),
            input(launch.activation, "activation"),
            input(launch.gradient, "gradient"),
            input(launch.target, "target"),
            slot_of(launch.output),
            launch.custom == nullptr ? nullptr : launch.custom->name.c_str()};
  }

  pipetrain_compute table_;
  StageId id_;
  schedules::Placement placement_;
};

class CallbackSource : public InputSource {
 public:
  CallbackSource(const pipetrain_pipeline_request& request, int replica)
      : fill_(request.fill), user_(request.user), replica_(replica) {}

  void fill(schedules::InputKind kind, const StepInfo& info, int microbatch, Slot& slot) override {
    const pipetrain_step step = step_to_c(info);
    auto* filled = static_cast<pipetrain_slot*>(slot.owner.get());
    check_callback(fill_(user_, replica_, static_cast<int32_t>(kind), &step, microbatch, filled), "fill");
    const std::string fault = content_fault(*filled);
    if (!fault.empty()) throw Error(ErrorKind::input, "fill of microbatch " + std::to_string(microbatch) + ": " + fault);
  }

 private:
  decltype(pipetrain_pipeline_request::fill) fill_;
  void* user_;
  int replica_;
};

}  // namespace

Guest make_callback_guest(const pipetrain_compute& callbacks, StageId id, const schedules::Placement& placement) {
  using Acts = Guest::Acts;
  const Acts runs = callbacks.any_thread != 0 ? Acts::runs_on_any_thread : Acts::runs_on_own_thread;
  return {std::make_shared<CallbackStage>(callbacks, id, placement), callbacks.launch != nullptr ? Acts::launches : runs};
}

std::shared_ptr<InputSource> make_callback_source(const pipetrain_pipeline_request& request, int replica) {
  if (request.fill == nullptr) return make_empty_source();
  return std::make_shared<CallbackSource>(request, replica);
}

Decide make_callback_decide(pipetrain_decide decide, void* user) {
  if (decide == nullptr) return [](const std::vector<StageResult>&) { return Verdict{}; };
  return [decide, user](const std::vector<StageResult>& results) {
    std::vector<const double*> values;
    std::vector<std::size_t> counts;
    for (const StageResult& one : results) {
      values.push_back(one.data());
      counts.push_back(one.size());
    }
    pipetrain_verdict verdict{sizeof(pipetrain_verdict), 1, 1};
    check_callback(decide(user, values.data(), counts.data(), results.size(), &verdict), "decide");
    if (!std::isfinite(verdict.grad_scale))
      throw Error(ErrorKind::numeric, "decide: grad_scale is not finite; skip the step instead");
    return Verdict{.apply = verdict.apply != 0, .grad_scale = verdict.grad_scale};
  };
}

}  // namespace pipetrain::c_api
