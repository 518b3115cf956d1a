// A stage's compute, input source and verdict as callbacks of the caller's.
#pragma once

#include <pipetrain/pipetrain.h>

#include <memory>

#include "actors/engine/stage_compute.hpp"
#include "actors/engine/step.hpp"
#include "bindings/host/hosted_pipeline.hpp"

namespace pipetrain::c_api {

// `callbacks` has exactly one of launch and run. Its `destroy` is called with the guest's end.
Guest make_callback_guest(const pipetrain_compute& callbacks, StageId id, const schedules::Placement& placement);

// Hands slots on as they are where the request has no `fill`.
std::shared_ptr<InputSource> make_callback_source(const pipetrain_pipeline_request& request, int replica);

// Null: apply.
Decide make_callback_decide(pipetrain_decide decide, void* user);

}  // namespace pipetrain::c_api
