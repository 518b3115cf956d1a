// Computes that move no data: for tests, for measuring the actors alone, and for running a schedule in real time.
#pragma once

#include <functional>
#include <memory>

#include "actors/engine/stage_compute.hpp"

namespace pipetrain {

// Every action is enqueued and completed at once.
std::shared_ptr<StageCompute> make_noop_compute();

// Each action takes the time that `duration` returns, one after the other, on the actors' clock: it sleeps without a
// thread, and in virtual time it is exact. An action is enqueued at its launch and completed at its end.
using ActionDuration = std::function<std::chrono::nanoseconds(StageId, const schedules::Action&)>;
std::shared_ptr<StageCompute> make_sleeping_compute(StageId id, ActionDuration duration);

// Makes a source that fills nothing.
std::shared_ptr<InputSource> make_empty_source();

}  // namespace pipetrain
