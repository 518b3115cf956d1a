#include "actors/generation/run_source.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace pipetrain {

RunSource::RunSource(const RunLimits& limits, const std::vector<Device*>& first) : limits_(limits) {
  if (first.empty()) return;
  staging_ = first.front()->allocate_host(
      static_cast<std::size_t>(limits.sequences) * static_cast<std::size_t>(longest_run) * sizeof(std::int32_t),
      "ids in flight");
  for (Device* device : first) streams_.push_back(device->make_stream("ids"));
}

void RunSource::fill(schedules::InputKind kind, const StepInfo& step, int microbatch, Slot& slot) {
  if (kind != schedules::InputKind::activation) return;
  if (step_ != step.step) {
    if (!step.content) throw Error(ErrorKind::internal, "an empty step");
    runs_ = sequence_runs(*step.content, limits_);
    step_ = step.step;
  }
  const auto& ids = runs_.at(static_cast<std::size_t>(microbatch)).ids;
  if (ids.empty()) return;
  auto* const staged = static_cast<std::int32_t*>(staging_.data()) + microbatch * longest_run;
  std::copy(ids.begin(), ids.end(), staged);
  for (std::size_t lane = 0; lane < slot.lanes.size(); ++lane) {
    Stream& stream = *streams_[lane];
    wait_until_free(stream, slot, lane);
    stream.copy(slot.lanes[lane].tensor.data, staged, ids.size() * sizeof(std::int32_t));
    mark_ready(stream, slot, lane);
    // The callback keeps the events until the stream has used them.
    stream.host_callback([ready = slot.lanes[lane].ready, free = slot.lanes[lane].free] {});
  }
}

}  // namespace pipetrain
