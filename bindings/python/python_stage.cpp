#include "bindings/python/python_stage.hpp"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <string>
#include <unordered_map>
#include <utility>

#include "bindings/python/far_slot.hpp"
#include "core/error.hpp"

namespace nb = nanobind;

namespace pipetrain::python {

namespace {

// Drops a reference from any thread. After the interpreter's end it leaks the object.
void drop(nb::object& object) {
  if (!object.is_valid()) return;
  if (!Py_IsInitialized()) {
    object.release();
    return;
  }
  const nb::gil_scoped_acquire acquired;
  object.reset();
}

// Calls Python from a thread without the GIL. An exception is kept, and ends the run as one line.
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

// The contents of a slot: any object.
struct Box {
  ~Box() { drop(object); }
  nb::object object;
};

nb::object& object_in(const SlotHandle& slot) { return static_cast<Box*>(slot->owner.get())->object; }

// Slots with memory whose contents go to other processes or come from them; the stage writes and reads it. Holds the GIL.
class FarSlots {
 public:
  explicit FarSlots(nb::object stage) : stage_(std::move(stage)) {}
  ~FarSlots() {
    for (auto& [slot, object] : objects_) drop(object);
    drop(stage_);
  }
  FarSlots(const FarSlots&) = delete;
  FarSlots& operator=(const FarSlots&) = delete;

  void store(const nb::object& value, const SlotHandle& slot) { stage_.attr("store")(value, object_of(slot)); }
  // Loads it once for all actions that read it.
  nb::object load(const SlotHandle& slot) {
    nb::object& loaded = object_in(slot);
    if (!loaded.is_valid()) loaded = stage_.attr("load")(object_of(slot));
    return loaded;
  }

 private:
  nb::object& object_of(const SlotHandle& slot) {
    nb::object& object = objects_[slot.get()];
    if (!object.is_valid()) object = make_far_slot(slot);
    return object;
  }

  nb::object stage_;
  std::unordered_map<const Slot*, nb::object> objects_;
};

// Python's state of a thread that calls it (its identity, its threading.local values), kept from its first call to its
// end instead of one for each call.
class ThreadState {
 public:
  ThreadState() {  // holds no GIL
    PyGILState_Ensure();
    state_ = PyEval_SaveThread();
  }
  ~ThreadState() {
    if (!Py_IsInitialized()) return;
    PyEval_RestoreThread(state_);
    PyGILState_Release(PyGILState_UNLOCKED);
  }
  ThreadState(const ThreadState&) = delete;
  ThreadState& operator=(const ThreadState&) = delete;

 private:
  PyThreadState* state_;
};

// Makes the Python object of type pipetrain.stage.Launch that describes an action.
class LaunchMaker {
 public:
  LaunchMaker(int stage, schedules::Placement placement) : stage_(stage), placement_(std::move(placement)) {
    type_ = nb::module_::import_("pipetrain.stage").attr("Launch");
    for (std::size_t kind = 0; kind < letters_.size(); ++kind)
      letters_[kind] = nb::str(std::string(1, letter(static_cast<schedules::ActionKind>(kind))).c_str());
  }
  ~LaunchMaker() {
    for (auto& one : letters_) drop(one);
    drop(type_);
  }
  LaunchMaker(const LaunchMaker&) = delete;
  LaunchMaker& operator=(const LaunchMaker&) = delete;

  // Calls tuple.__new__(Launch, (...)), which takes a third of the time of Launch(...).
  nb::object operator()(const Launch& launch, FarSlots& far) const {
    const auto& action = launch.action;
    const auto input = [&](const SlotHandle& slot) {
      if (!slot) return nb::object(nb::none());
      return slot->lanes.empty() ? object_in(slot) : far.load(slot);
    };
    const nb::tuple values = nb::make_tuple(
        letters_[static_cast<std::size_t>(action.kind)], int{action.chunk}, action.microbatch,
        placement_.virtual_stage(stage_, action.chunk), input(launch.activation), input(launch.gradient), input(launch.target),
        launch.custom ? nb::object(nb::str(launch.custom->name.c_str())) : nb::object(nb::none()));
    const nb::tuple arguments = nb::make_tuple(values);
    PyObject* made = PyTuple_Type.tp_new(reinterpret_cast<PyTypeObject*>(type_.ptr()), arguments.ptr(), nullptr);
    if (made == nullptr) throw nb::python_error();
    return nb::steal(made);
  }

 private:
  int stage_;
  schedules::Placement placement_;
  nb::object type_;
  std::array<nb::object, schedules::action_kinds> letters_;  // by kind
};

class PythonStage : public GuestStage {
 public:
  PythonStage(nb::object stage, const GuestRequest& request, schedules::Placement placement,
              std::shared_ptr<PythonThrown> thrown)
      : stage_(std::move(stage)),
        run_(nb::steal(PyUnicode_InternFromString("run"))),
        id_(request.id),
        processes_(request.processes),
        far_(stage_),
        make_launch_(id_.stage, std::move(placement)),
        thrown_(std::move(thrown)) {
    for (const char* method : {"run", "begin_step", "begin_evaluation", "verdict", "abort"})
      stage_.attr(method).ptr();  // or AttributeError
  }
  ~PythonStage() override {
    drop(run_);
    drop(stage_);
  }
  PythonStage(const PythonStage&) = delete;
  PythonStage& operator=(const PythonStage&) = delete;

  std::vector<SlotHandle> make_slots(schedules::InputKind kind, int chunk, int count) override {
    const bool from_afar = processes_ && processes_->comes_from_afar(id_, kind, chunk);
    auto slots = from_afar ? processes_->make_slots(id_, kind, chunk, count) : make_empty_slots(count);
    for (auto& slot : slots) slot->owner = std::make_shared<Box>();
    return slots;
  }
  StageCompute::LaneSources lane_sources() const override { return processes_->lane_sources(id_); }

  void begin_step(const StepInfo& step) override {
    call_python(*thrown_, [&] {
      if (step.evaluates()) {
        stage_.attr("begin_evaluation")();
      } else {
        stage_.attr("begin_step")(step.step, step.learning_rate);
      }
    });
  }

  StageResult run(const Launch& launch) override {
    [[maybe_unused]] static thread_local const ThreadState state;
    return call_python(*thrown_, [&]() -> StageResult {
      const nb::object asked = make_launch_(launch, far_);
      nb::object output = nb::steal(PyObject_CallMethodOneArg(stage_.ptr(), run_.ptr(), asked.ptr()));
      if (!output.is_valid()) throw nb::python_error();
      for (const auto& slot : launch.release) object_in(slot).reset();
      if (launch.output && !launch.output->lanes.empty()) {
        far_.store(output, launch.output);
      } else if (launch.output) {
        object_in(launch.output) = std::move(output);
      }
      if (launch.action.kind != schedules::ActionKind::norm) return {};
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
  StageId id_;
  std::shared_ptr<GuestProcesses> processes_;  // null: one process
  FarSlots far_;
  LaunchMaker make_launch_;
  std::shared_ptr<PythonThrown> thrown_;
};

class PythonSource : public InputSource {
 public:
  PythonSource(std::shared_ptr<PythonInputs> inputs, int replica) : inputs_(std::move(inputs)), replica_(replica) {}

  void fill(schedules::InputKind kind, const StepInfo&, int microbatch, Slot& slot) override {
    nb::object& object = static_cast<Box*>(slot.owner.get())->object;
    drop(object);
    object = inputs_->take(kind, replica_, microbatch);
  }
  bool fills_at_once() const override { return true; }

 private:
  std::shared_ptr<PythonInputs> inputs_;
  int replica_;
};

}  // namespace

PythonInputs::Lists read_inputs(const nb::list& given) {
  PythonInputs::Lists lists;
  for (const nb::handle replica : given) {
    auto& microbatches = lists.emplace_back();
    for (const nb::handle one : nb::cast<nb::list>(replica)) microbatches.push_back(nb::borrow(one));
  }
  return lists;
}

void PythonInputs::swap(Lists& activations, Lists& targets) {
  const std::lock_guard lock(mutex_);  // no thread waits for the GIL while it holds this
  activations_.swap(activations);
  targets_.swap(targets);
}

nb::object PythonInputs::take(schedules::InputKind kind, int replica, int microbatch) {
  const std::lock_guard lock(mutex_);
  Lists& all = kind == schedules::InputKind::activation ? activations_ : targets_;
  return std::move(all.at(static_cast<std::size_t>(replica)).at(static_cast<std::size_t>(microbatch)));
}

Guest make_python_guest(nb::object stage, const GuestRequest& request, const schedules::Placement& placement,
                        std::shared_ptr<PythonThrown> thrown) {
  const bool any_thread(nb::bool_(nb::getattr(stage, "any_thread", nb::bool_(false))));
  return {std::make_shared<PythonStage>(std::move(stage), request, placement, std::move(thrown)),
          any_thread ? Guest::Acts::runs_on_any_thread : Guest::Acts::runs_on_own_thread};
}

std::shared_ptr<InputSource> make_python_source(std::shared_ptr<PythonInputs> inputs, int replica) {
  return std::make_shared<PythonSource>(std::move(inputs), replica);
}

Decide make_python_decide(nb::object decide, std::shared_ptr<PythonThrown> thrown) {
  // Held by a pointer, because std::function copies its contents without the GIL.
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
