// Python objects as stages, inputs and verdicts of a pipeline. What they raise is kept, to be the cause of what step() raises.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>

#include "actors/engine/stage_compute.hpp"
#include "actors/engine/step.hpp"
#include "bindings/host/hosted_pipeline.hpp"

namespace pipetrain::python {

// The first exception that Python code of a pipeline raised, or None.
struct PythonThrown {
  PythonThrown() : value(nanobind::none()) {}
  nanobind::object value;
};

// The microbatches of the running step: [replica][microbatch].
struct PythonInputs {
  nanobind::list activations, targets;
};

// The stage's begin_step(step, learning_rate), run(...), verdict(apply, grad_scale) and abort(why) are called.
std::shared_ptr<StageCompute> make_python_compute(nanobind::object stage, const HostedRequest& request,
                                                  const schedules::Placement& placement, std::shared_ptr<PythonThrown> thrown);
std::shared_ptr<InputSource> make_python_source(std::shared_ptr<PythonInputs> inputs, int replica,
                                                std::shared_ptr<PythonThrown> thrown);
// decide(results) -> (apply, grad_scale).
Decide make_python_decide(nanobind::object decide, std::shared_ptr<PythonThrown> thrown);

}  // namespace pipetrain::python
