// Wraps Python objects as stages, inputs and verdicts of a pipeline. Their exceptions are kept as the cause of the one
// that step() raises.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <mutex>
#include <vector>

#include "actors/engine/stage_compute.hpp"
#include "actors/engine/step.hpp"
#include "bindings/guest/guest_pipeline.hpp"

namespace pipetrain::python {

// The first exception that Python code of a pipeline raised, or None.
struct PythonThrown {
  PythonThrown() : value(nanobind::none()) {}
  nanobind::object value;
};

// The microbatches of the running step. Thread-safe; taking one needs no GIL.
class PythonInputs {
 public:
  using Lists = std::vector<std::vector<nanobind::object>>;  // [replica][microbatch]

  // Sets those of the first and of the last part of the model, and returns the previous ones. Needs no GIL.
  void swap(Lists& activations, Lists& targets);
  // Each can be taken once.
  nanobind::object take(schedules::InputKind kind, int replica, int microbatch);

 private:
  std::mutex mutex_;
  Lists activations_, targets_;
};

PythonInputs::Lists read_inputs(const nanobind::list& given);  // holds the GIL

// Calls the stage's begin_step(step, learning_rate), run(Launch), verdict(apply, grad_scale) and abort(why). Holds the GIL.
Guest make_python_guest(nanobind::object stage, const GuestRequest& request, const schedules::Placement& placement,
                        std::shared_ptr<PythonThrown> thrown);
std::shared_ptr<InputSource> make_python_source(std::shared_ptr<PythonInputs> inputs, int replica);
// decide(results) -> (apply, grad_scale).
Decide make_python_decide(nanobind::object decide, std::shared_ptr<PythonThrown> thrown);

}  // namespace pipetrain::python
