// Converts between the C API's plain values and those of the library. All functions throw Error(input) for a value out
// of range.
#pragma once

#include <pipetrain/pipetrain.h>

#include "schedules/plan/action.hpp"
#include "schedules/plan/plan.hpp"
#include "schedules/plan/validate.hpp"

namespace pipetrain::c_api {

pipetrain_action to_c(const schedules::Action& action);
schedules::Action from_c(const pipetrain_action* action);

struct Rules {
  schedules::Order order = schedules::Order::planned;
  schedules::SlotLife life;
  int run_ahead = 2;
};
// given: null for the defaults.
Rules read_rules(const pipetrain_rules* rules);

// Check a stage and a chunk of the placement.
std::size_t checked_stage(const schedules::Placement& placement, int stage);
std::size_t checked_chunk(const schedules::Placement& placement, int chunk);

pipetrain_chunk_needs to_c(const schedules::ChunkNeeds& needs);

}  // namespace pipetrain::c_api
