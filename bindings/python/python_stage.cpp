#include "bindings/python/python_stage.hpp"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <string>
#include <utility>

#include "bindings/host/blocking_compute.hpp"
#include "core/error.hpp"

namespace nb = nanobind;

namespace pipetrain::python {

namespace {

// Drops a reference from any thread. After the interpreter's end there is nobody to drop it for.
void drop(nb::object& object) {
  if (!Py_IsInitialized()) {
    object.release();
    return;
  }
  const nb::gil_scoped_acquire acquired;
  object.reset();
}

// Calls Python from a thread without the GIL. What it raises is kept, and ends the run as one line.
template <class Call>
auto call_python(PythonThrown& thrown, Call call) {
  const nb::gil_scoped_acquire acquired;
  try {
    return call();
  } catch (const nb::python_error& error) {
    if (thrown.value.is_none()) thrown.value = nb::borrow(error.value());
    const std::string type = nb::cast<std::string>(error.type().attr("__name__"));
    throw Error(ErrorKind::internal, type + ": " + nb::cast<std::string>(nb::str(error.value())));
  } catch (const nb::cast_error&) {
    throw Error(ErrorKind::input, "a callback returned another type than it should");
  }
}

// What a slot carries: any object.
struct Box {
  ~Box() { drop(object); }
  nb::object object;
};

nb::object& object_in(const SlotHandle& slot) { return static_cast<Box*>(slot->owner.get())->object; }

class PythonStage : public BlockingStage {
 public:
  PythonStage(nb::object stage, int number, schedules::Placement placement, std::shared_ptr<PythonThrown> thrown)
      : stage_(std::move(stage)), number_(number), placement_(std::move(placement)), thrown_(std::move(thrown)) {
    run_ = stage_.attr("run");
    for (std::size_t kind = 0; kind < letters_.size(); ++kind)
      letters_[kind] = nb::str(std::string(1, letter(static_cast<schedules::ActionKind>(kind))).c_str());
  }
  ~PythonStage() override {
    for (auto& one : letters_) drop(one);
    drop(run_);
    drop(stage_);
  }
  PythonStage(const PythonStage&) = delete;
  PythonStage& operator=(const PythonStage&) = delete;

  std::vector<SlotHandle> make_slots(schedules::InputKind, int, int count) override {
    auto slots = make_empty_slots(count);
    for (auto& slot : slots) slot->owner = std::make_shared<Box>();
    return slots;
  }

  void begin_step(const StepInfo& step) override {
    call_python(*thrown_, [&] { stage_.attr("begin_step")(step.step, step.learning_rate); });
  }

  StageResult run(const Launch& launch) override {
    return call_python(*thrown_, [&]() -> StageResult {
      const auto& action = launch.action;
      const auto input = [](const SlotHandle& slot) { return slot ? object_in(slot) : nb::object(nb::none()); };
      nb::object output =
          run_(letters_[static_cast<std::size_t>(action.kind)], int{action.chunk}, action.microbatch,
               placement_.virtual_stage(number_, action.chunk), input(launch.activation), input(launch.gradient),
               input(launch.target), launch.custom ? nb::object(nb::str(launch.custom->name.c_str())) : nb::object(nb::none()));
      for (const auto& slot : launch.release) object_in(slot).reset();
      if (launch.output) object_in(launch.output) = std::move(output);
      if (action.kind != schedules::ActionKind::norm) return {};
      return nb::cast<StageResult>(output);
    });
  }

  void verdict(const Verdict& verdict) override {
    call_python(*thrown_, [&] { stage_.attr("verdict")(verdict.apply, verdict.grad_scale); });
  }

  void abort(const std::string& why) noexcept override {
    try {
      call_python(*thrown_, [&] { stage_.attr("abort")(why); });
    } catch (const Error&) {  // the run has failed already, with its first cause
    }
  }

 private:
  nb::object stage_, run_;
  std::array<nb::object, schedules::action_kinds> letters_;  // by kind
  int number_;
  schedules::Placement placement_;
  std::shared_ptr<PythonThrown> thrown_;
};

class PythonSource : public InputSource {
 public:
  PythonSource(std::shared_ptr<PythonInputs> inputs, int replica, std::shared_ptr<PythonThrown> thrown)
      : inputs_(std::move(inputs)), replica_(static_cast<std::size_t>(replica)), thrown_(std::move(thrown)) {}

  void fill(schedules::InputKind kind, const StepInfo&, int microbatch, Slot& slot) override {
    call_python(*thrown_, [&] {
      const nb::list& all = kind == schedules::InputKind::activation ? inputs_->activations : inputs_->targets;
      static_cast<Box*>(slot.owner.get())->object = all[replica_][static_cast<std::size_t>(microbatch)];
    });
  }

 private:
  std::shared_ptr<PythonInputs> inputs_;
  std::size_t replica_;
  std::shared_ptr<PythonThrown> thrown_;
};

}  // namespace

std::shared_ptr<StageCompute> make_python_compute(nb::object stage, const HostedRequest& request,
                                                  const schedules::Placement& placement, std::shared_ptr<PythonThrown> thrown) {
  auto own = std::make_shared<PythonStage>(std::move(stage), request.id.stage, placement, std::move(thrown));
  return std::make_shared<BlockingCompute>(std::move(own), request.stage, request.watch);
}

std::shared_ptr<InputSource> make_python_source(std::shared_ptr<PythonInputs> inputs, int replica,
                                                std::shared_ptr<PythonThrown> thrown) {
  return std::make_shared<PythonSource>(std::move(inputs), replica, std::move(thrown));
}

Decide make_python_decide(nb::object decide, std::shared_ptr<PythonThrown> thrown) {
  // Held by a pointer, because std::function copies what it holds without the GIL.
  const auto held = std::shared_ptr<nb::object>(new nb::object(std::move(decide)), [](nb::object* object) {
    drop(*object);
    delete object;
  });
  return [held, thrown](const std::vector<StageResult>& results) {
    return call_python(*thrown, [&] {
      const auto [apply, scale] = nb::cast<std::pair<bool, double>>((*held)(nb::cast(results)));
      return Verdict{.apply = apply, .grad_scale = scale};
    });
  };
}

}  // namespace pipetrain::python
