// Pipelines in Python, whose stages are Python objects.
#include <nanobind/stl/map.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "actors/engine/run_failed.hpp"
#include "bindings/guest/guest_pipeline.hpp"
#include "bindings/python/bind.hpp"
#include "bindings/python/python_stage.hpp"
#include "core/error.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace pipetrain::python {

namespace {

std::chrono::milliseconds milliseconds(const char* name, double seconds) {
  if (!(seconds >= 0.001 && seconds <= 1e8))
    throw Error(ErrorKind::input, {name, std::to_string(seconds)}, "must be from 0.001 to 1e8 seconds");
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

PipelineOptions read_pipeline_options(const schedules::Plan& plan, const nb::dict& how) {
  PipelineOptions options;
  options.plan = plan;
  options.order = order_of(nb::cast<std::string>(how["order"]));
  options.slot_life = life_of(nb::cast<std::string>(how["activation_life"]), nb::cast<std::string>(how["gradient_life"]));
  options.replicas = nb::cast<int>(how["replicas"]);
  if (options.replicas < 1) throw Error(ErrorKind::input, {"replicas", std::to_string(options.replicas)}, "must be at least 1");
  options.stall = milliseconds("stall_timeout", nb::cast<double>(how["stall_timeout"]));
  options.grace = milliseconds("grace", nb::cast<double>(how["grace"]));
  return options;
}

StepInfo read_step(const nb::dict& how) {
  StepInfo info;
  info.step = nb::cast<std::int64_t>(how["number"]);
  info.microbatches = 0;  // the plan's
  info.tokens = nb::cast<double>(how["tokens"]);
  info.learning_rate = nb::cast<double>(how["learning_rate"]);
  if (nb::cast<bool>(how["evaluation"])) info.kind = schedules::StepKind::evaluation;
  return info;
}

// Returns null for a single process.
std::shared_ptr<GuestProcesses> read_processes(const nb::dict& how) {
  if (how["world"].is_none()) return nullptr;
  GuestPlacement places;
  places.world = nb::cast<std::shared_ptr<GuestWorld>>(how["world"]);
  places.gpus = nb::cast<std::map<int, int>>(how["gpus"]);
  places.devices = nb::cast<bool>(how["on_gpus"]) ? DeviceKind::cuda : DeviceKind::cpu;
  places.bytes = nb::cast<std::vector<std::size_t>>(how["bytes"]);
  places.note = nb::cast<std::string>(how["note"]);
  return std::make_shared<GuestProcesses>(std::move(places));
}

// The pipeline, and its common state with the threads that call Python. The GIL is never held while it waits for them.
class PythonPipeline {
 public:
  // stages: replica-major; None for those of other processes.
  PythonPipeline(const schedules::Plan& plan, const nb::list& stages, const nb::dict& how) {
    PipelineOptions options = read_pipeline_options(plan, how);
    const int each = plan.placement.stages();
    if (nb::len(stages) != static_cast<std::size_t>(each * options.replicas))
      throw Error(ErrorKind::input, {"stages", std::to_string(nb::len(stages))},
                  "the plan and its replicas have " + std::to_string(each * options.replicas));
    const auto make_compute = [&](const GuestRequest& request) {
      const nb::gil_scoped_acquire acquired;
      const nb::object stage = stages[static_cast<std::size_t>(request.id.replica * each + request.id.stage)];
      return make_python_guest(stage, request, plan.placement, thrown_);
    };
    const auto make_source = [&](int replica) { return make_python_source(inputs_, replica); };
    auto processes = read_processes(how);
    notes_ = {nb::cast<std::string>(how["note"])};
    const nb::gil_scoped_release released;
    pipeline_ = std::make_unique<GuestPipeline>(std::move(options), make_compute, make_source, processes);
    if (processes) notes_ = processes->notes();
  }
  ~PythonPipeline() {
    const nb::gil_scoped_release released;
    pipeline_.reset();
  }
  PythonPipeline(const PythonPipeline&) = delete;
  PythonPipeline& operator=(const PythonPipeline&) = delete;

  // how: number, evaluation, tokens, learning_rate. inputs, targets: [replica][microbatch], of the first and of the
  // last part of the model. begin, end: see StepHooks, or None. Returns the result of each stage's N, whether the
  // optimizers ran, and the scale of the gradients.
  nb::tuple step(const nb::dict& how, const nb::list& inputs, const nb::list& targets, const nb::object& decide,
                 const nb::object& begin, const nb::object& end) {
    PythonInputs::Lists given[2] = {read_inputs(inputs), read_inputs(targets)};
    const StepInfo info = read_step(how);
    nb::object interrupt = nb::none(), raised_at_end = nb::none();
    Decide call_decide = make_python_decide(decide, thrown_);
    StepHooks hooks;
    hooks.interval = std::chrono::milliseconds(50);
    hooks.poll = [&] { look_for_signals(interrupt); };
    hooks.begin = [&] {
      inputs_->swap(given[0], given[1]);  // only now, because another step might have been running
      const nb::gil_scoped_acquire acquired;
      if (!begin.is_none()) begin();
    };
    hooks.end = [&] {
      const nb::gil_scoped_acquire acquired;
      try {
        if (!end.is_none()) end();
      } catch (const nb::python_error& raised) {
        raised_at_end = nb::borrow(raised.value());
      }
    };
    StepEnd ended;
    try {
      const nb::gil_scoped_release released;
      ended = pipeline_->step(info, std::move(call_decide), hooks);
    } catch (const RunFailed& failed) {
      if (!interrupt.is_none()) {
        PyErr_SetObject(interrupt.type().ptr(), interrupt.ptr());
      } else {
        // Clears the exception, which would keep its frames alive.
        raise_run_failed(failed, std::exchange(thrown_->value, nb::none()));
      }
      throw nb::python_error();
    }
    if (!raised_at_end.is_none()) {
      PyErr_SetObject(raised_at_end.type().ptr(), raised_at_end.ptr());
      throw nb::python_error();
    }
    return nb::make_tuple(ended.results, ended.verdict.apply, ended.verdict.grad_scale);
  }

  void abort(const std::string& why) { pipeline_->abort(why); }
  std::vector<std::string> waiting() {
    const nb::gil_scoped_release released;
    return pipeline_->waiting();
  }
  schedules::Timeline timeline() const { return pipeline_->timeline(); }
  void close() {
    const nb::gil_scoped_release released;
    pipeline_->close();
  }
  schedules::Plan plan() const { return pipeline_->plan(); }
  std::vector<std::string> notes() const { return notes_; }

 private:
  // An exception of a signal handler, such as KeyboardInterrupt, ends the step.
  void look_for_signals(nb::object& interrupt) {
    const nb::gil_scoped_acquire acquired;
    if (!interrupt.is_none() || PyErr_CheckSignals() == 0) return;
    const nb::python_error raised;  // takes the exception
    interrupt = nb::borrow(raised.value());
    pipeline_->abort("interrupted");
  }

  std::vector<std::string> notes_;  // by process
  std::shared_ptr<PythonInputs> inputs_ = std::make_shared<PythonInputs>();
  std::shared_ptr<PythonThrown> thrown_ = std::make_shared<PythonThrown>();
  std::unique_ptr<GuestPipeline> pipeline_;
};

}  // namespace

void bind_pipeline(nb::module_& module) {
  module.def("keep_silent_about_leaks", [] { nb::set_leak_warnings(false); });
  nb::class_<PythonPipeline>(module, "Pipeline")
      .def(nb::init<const schedules::Plan&, const nb::list&, const nb::dict&>(), "plan"_a, "stages"_a, "how"_a)
      .def("step", &PythonPipeline::step, "how"_a, "inputs"_a, "targets"_a, "decide"_a, "begin"_a.none(), "end"_a.none())
      .def("abort", &PythonPipeline::abort, "why"_a)
      .def("waiting", &PythonPipeline::waiting)
      .def("timeline", &PythonPipeline::timeline)
      .def("close", &PythonPipeline::close)
      .def_prop_ro("plan", &PythonPipeline::plan)
      .def_prop_ro("notes", &PythonPipeline::notes);
}

}  // namespace pipetrain::python
