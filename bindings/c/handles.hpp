// The objects behind the handles of the C API.
#pragma once

#include <pipetrain/pipetrain.h>

#include <memory>
#include <vector>

#include "bindings/c/handle_table.hpp"
#include "bindings/guest/guest_pipeline.hpp"
#include "schedules/plan/plan.hpp"
#include "schedules/simulate/timeline.hpp"

namespace pipetrain::c_api {

// A pipeline with the handles of its stages, which end with it.
struct PipelineHandle {
  std::unique_ptr<GuestPipeline> pipeline;
  std::vector<pipetrain_stage*> stages;
};

struct TimelineHandle {
  schedules::Timeline timeline;
  std::vector<double> transfers;  // as summarize() takes them
};

HandleTable<pipetrain_plan, const schedules::Plan>& plans();
HandleTable<pipetrain_timeline, const TimelineHandle>& timelines();
HandleTable<pipetrain_pipeline, PipelineHandle>& pipelines();
HandleTable<pipetrain_stage, GuestAnswers>& stages();

}  // namespace pipetrain::c_api
