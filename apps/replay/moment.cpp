#include "apps/replay/moment.hpp"

#include <fmt/format.h>

#include <vector>

namespace pipetrain {

namespace {

using schedules::InputKind;
using schedules::QueueState;
using schedules::RecordedRun;
using schedules::SlotHolder;

std::string of_replica(const RecordedRun& run, int replica, int part) {
  return (run.replicas > 1 ? fmt::format("replica {} ", replica) : "") + (run.parts > 1 ? fmt::format("part {} ", part) : "");
}

std::string chunk_name(const RecordedRun& run, int virtual_stage) {
  const auto at = run.plan.placement.at(virtual_stage);
  return fmt::format("stage {}", at.stage) + (run.plan.placement.chunks() > 1 ? fmt::format(" chunk {}", at.chunk) : "");
}

std::string queue_line(const RecordedRun& run, const QueueState& queue) {
  const char* const kind = queue.kind == InputKind::activation ? (queue.fed ? "tokens" : "activations")
                           : queue.kind == InputKind::gradient ? "gradients"
                                                               : "targets";
  const std::string consumer = chunk_name(run, queue.virtual_stage);
  const std::string producer =
      queue.fed ? "the feeder" : chunk_name(run, queue.virtual_stage + (queue.kind == InputKind::activation ? -1 : 1));
  std::vector<std::string> places;
  if (queue.free > 0) places.push_back(fmt::format("{} has {} free", producer, queue.free));
  const auto add = [&](SlotHolder place, const std::string& who) {
    const std::vector<int> microbatches = queue.microbatches(place);
    if (!microbatches.empty()) places.push_back(fmt::format("{} {}", who, fmt::join(microbatches, ", ")));
  };
  add(SlotHolder::filling, producer + " fills");
  add(SlotHolder::sent, "in flight:");
  add(SlotHolder::held, consumer + " holds");
  if (queue.returning > 0) places.push_back(fmt::format("{} returning", queue.returning));
  return fmt::format("{}{} for {}: {}\n", of_replica(run, queue.replica, queue.part), kind, consumer, fmt::join(places, "; "));
}

}  // namespace

std::string stage_name(const RecordedRun& run, int log) {
  return of_replica(run, run.replica_of(log), log % run.parts) + fmt::format("stage {}", run.stage_of(log));
}

std::string moment_text(const schedules::Replay& replay) {
  const RecordedRun& run = replay.run();
  std::string text;
  for (const auto& stage : replay.stages()) {
    std::string running;
    for (const auto& action : stage.running)
      running += (running.empty() ? "runs " : ", then ") + to_string(action, run.plan.form());
    text += fmt::format("{}stage {}: {}; {}\n", of_replica(run, stage.replica, stage.part), stage.stage,
                        running.empty() ? "runs nothing" : running, stage.waiting);
  }
  text += "\nslots, by microbatch:\n";
  for (const auto& queue : replay.queues()) text += queue_line(run, queue);
  return text;
}

}  // namespace pipetrain
