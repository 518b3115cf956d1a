// Wraps the caller's callbacks as a stage's compute, an input source and a verdict.
#pragma once

#include <pipetrain/pipetrain.h>

#include <memory>

#include "actors/engine/stage_compute.hpp"
#include "actors/engine/step.hpp"
#include "bindings/guest/guest_pipeline.hpp"

namespace pipetrain::c_api {

// `callbacks` must have exactly one of launch and run. `destroy` is called when the guest ends.
Guest make_callback_guest(const pipetrain_compute& callbacks, StageId id, const schedules::Placement& placement);

// Passes slots on unchanged where the request has no `fill`.
std::shared_ptr<InputSource> make_callback_source(const pipetrain_pipeline_request& request, int replica);

// decide: null to apply every step.
Decide make_callback_decide(pipetrain_decide decide, void* user);

}  // namespace pipetrain::c_api
