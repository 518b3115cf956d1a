// Plain data: the identity of a stage, and the actions that it ran with their times.
#pragma once

#include <chrono>
#include <vector>

#include "core/mesh.hpp"
#include "schedules/plan/action.hpp"

namespace pipetrain {

struct StageId {
  int replica = 0;
  int stage = 0;
  int part = 0;  // which part, where the ranks of a stage run in several processes; each part runs the stage's whole plan
  bool operator==(const StageId&) const = default;
};
// Returns the stage's coordinate in the mesh of stages: {.dp = replicas, .pp = stages, .part = parts}.
inline MeshCoordinate coordinate(const StageId& id) { return {.dp = id.replica, .pp = id.stage, .part = id.part}; }
inline StageId stage_id(const MeshCoordinate& at) { return {at.dp, at.pp, at.part}; }

// When an action ran, on the steady clock; both are zero for a compute that does not measure.
struct ActionTimes {
  std::chrono::steady_clock::time_point start, end;
};

struct TracedAction {
  schedules::Action action;
  ActionTimes times;
};

// An action on one device.
struct DeviceAction {
  schedules::Action action;
  ActionTimes times;
  std::chrono::steady_clock::time_point issued;  // when the worker had enqueued all of it
};
using DeviceActions = std::vector<DeviceAction>;  // of one device in a step, in order

struct StageTrace {
  StageId stage;
  std::vector<TracedAction> actions;  // in order of completion
};

}  // namespace pipetrain
