#include "bindings/c/handles.hpp"

#include <atomic>

namespace pipetrain::c_api {

std::uintptr_t next_handle() {
  static std::atomic<std::uintptr_t> last{0};
  return 16 * ++last;  // aligned like a pointer
}

// The tables are never destroyed: threads of the caller may outlive main().
HandleTable<pipetrain_plan, const schedules::Plan>& plans() {
  static auto& table = *new HandleTable<pipetrain_plan, const schedules::Plan>("plan");
  return table;
}

HandleTable<pipetrain_timeline, const TimelineHandle>& timelines() {
  static auto& table = *new HandleTable<pipetrain_timeline, const TimelineHandle>("timeline");
  return table;
}

HandleTable<pipetrain_pipeline, PipelineHandle>& pipelines() {
  static auto& table = *new HandleTable<pipetrain_pipeline, PipelineHandle>("pipeline");
  return table;
}

HandleTable<pipetrain_stage, GuestAnswers>& stages() {
  static auto& table = *new HandleTable<pipetrain_stage, GuestAnswers>("stage");
  return table;
}

}  // namespace pipetrain::c_api
