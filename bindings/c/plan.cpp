// Plans of the C API.
#include <string_view>

#include "bindings/c/call.hpp"
#include "bindings/c/convert.hpp"
#include "bindings/c/handles.hpp"
#include "bindings/c/structs.hpp"
#include "bindings/guest/plan_building.hpp"
#include "core/error.hpp"
#include "schedules/builders/builders.hpp"
#include "schedules/plan/plan_text.hpp"
#include "schedules/plan/validate.hpp"

using namespace pipetrain;
using namespace pipetrain::c_api;

namespace {

void give_plan(schedules::Plan plan, pipetrain_plan** out) {
  *out = plans().add(std::make_shared<const schedules::Plan>(std::move(plan)));
}

bool is_csv(int32_t format) {
  if (format == PIPETRAIN_TEXT || format == PIPETRAIN_PYTORCH_CSV) return format == PIPETRAIN_PYTORCH_CSV;
  throw Error(ErrorKind::input, "format: " + std::to_string(format) + "; use PIPETRAIN_TEXT or PIPETRAIN_PYTORCH_CSV");
}

// Returns a stage's list after checking the stage.
const std::vector<schedules::Action>& list_of(const schedules::Plan& plan, int32_t stage) {
  return plan.stages[checked_stage(plan.placement, stage)];
}

}  // namespace

pipetrain_status pipetrain_schedule_at(size_t index, pipetrain_schedule* schedule) {
  return guarded([&] {
    const auto& all = schedules::all_schedules();
    if (index >= all.size())
      throw Error(ErrorKind::input,
                  "index: " + std::to_string(index) + "; there are " + std::to_string(all.size()) + " schedules");
    const schedules::ScheduleInfo& info = all[index];  // its name is a literal, which ends in 0
    write_struct(schedule,
                 {sizeof(pipetrain_schedule), info.name.data(), info.default_chunks, info.chunks_can_vary, info.has_ready_rule},
                 "schedule");
  });
}

pipetrain_status pipetrain_plan_build(const pipetrain_plan_request* given, pipetrain_plan** plan) {
  return guarded([&] {
    require(plan, "plan");
    const pipetrain_plan_request request = read_struct(given, "request");
    give_plan(build_any_plan(request.schedule == nullptr ? "1f1b" : request.schedule,
                             {request.stages, request.chunks, request.microbatches}),
              plan);
  });
}

pipetrain_status pipetrain_plan_parse(const char* text, size_t length, int32_t format, const char* name,
                                      pipetrain_plan** plan) {
  return guarded([&] {
    require(plan, "plan");
    require(text, "text");
    const std::string_view all(text, length);
    const std::string called = name == nullptr ? "plan" : name;
    give_plan(without_slices(is_csv(format) ? schedules::parse_pytorch_csv(all, called) : schedules::parse_plan(all, called)),
              plan);
  });
}

pipetrain_status pipetrain_plan_read(const char* path, pipetrain_plan** plan) {
  return guarded([&] {
    require(plan, "plan");
    require(path, "path");
    give_plan(read_any_plan(path), plan);
  });
}

pipetrain_status pipetrain_plan_with_end(const pipetrain_plan* compute, int32_t reduce, int32_t sum_replicated,
                                         int32_t sum_tied, pipetrain_plan** plan) {
  return guarded([&] {
    require(plan, "plan");
    give_plan(end_plan(*plans().get(compute), {reduce != 0, sum_replicated != 0, sum_tied != 0}), plan);
  });
}

pipetrain_status pipetrain_plan_free(pipetrain_plan* plan) {
  return guarded([&] {
    if (plan != nullptr) plans().remove(plan);
  });
}

pipetrain_status pipetrain_plan_describe(const pipetrain_plan* plan, pipetrain_plan_shape* shape) {
  return guarded([&] {
    const auto found = plans().get(plan);
    const schedules::Placement& placement = found->placement;
    write_struct(
        shape,
        {sizeof(pipetrain_plan_shape), placement.stages(), placement.chunks(), found->microbatches, has_end_of_step(*found)},
        "shape");
  });
}

pipetrain_status pipetrain_plan_length(const pipetrain_plan* plan, int32_t stage, size_t* actions) {
  return guarded([&] {
    const auto found = plans().get(plan);
    require(actions, "actions");
    *actions = list_of(*found, stage).size();
  });
}

pipetrain_status pipetrain_plan_action(const pipetrain_plan* plan, int32_t stage, size_t index, pipetrain_action* action) {
  return guarded([&] {
    const auto found = plans().get(plan);
    const auto& list = list_of(*found, stage);
    if (index >= list.size())
      throw Error(ErrorKind::input, "index: " + std::to_string(index) + "; stage " + std::to_string(stage) + " has " +
                                        std::to_string(list.size()) + " actions");
    write_struct(action, to_c(list[index]), "action");
  });
}

pipetrain_status pipetrain_plan_custom(const pipetrain_plan* plan, size_t number, pipetrain_custom* custom) {
  return guarded([&] {
    const auto found = plans().get(plan);
    if (number >= found->custom.size())
      throw Error(ErrorKind::input, "number: " + std::to_string(number) + "; the plan has " +
                                        std::to_string(found->custom.size()) + " custom actions");
    const schedules::CustomAction& one = found->custom[number];
    write_struct(custom, {sizeof(pipetrain_custom), one.name.c_str(), one.stage}, "custom");
  });
}

pipetrain_status pipetrain_plan_virtual_stage(const pipetrain_plan* plan, int32_t stage, int32_t chunk,
                                              int32_t* virtual_stage) {
  return guarded([&] {
    const auto found = plans().get(plan);
    require(virtual_stage, "virtual_stage");
    checked_stage(found->placement, stage);
    checked_chunk(found->placement, chunk);
    *virtual_stage = found->placement.virtual_stage(stage, chunk);
  });
}

pipetrain_status pipetrain_plan_print(const pipetrain_plan* plan, int32_t format, char* text, size_t capacity, size_t* length) {
  return guarded([&] {
    const auto found = plans().get(plan);
    give_text(is_csv(format) ? schedules::to_pytorch_csv(*found) : schedules::to_text(*found), text, capacity, length);
  });
}

pipetrain_status pipetrain_plan_validate(const pipetrain_plan* plan, const pipetrain_rules* given) {
  return guarded([&] {
    const auto found = plans().get(plan);
    const Rules rules = read_rules(given);
    schedules::validate(*found, rules.order, rules.life);
  });
}

pipetrain_status pipetrain_plan_needs(const pipetrain_plan* plan, const pipetrain_rules* given, int32_t stage, int32_t chunk,
                                      pipetrain_chunk_needs* needs) {
  return guarded([&] {
    const auto found = plans().get(plan);
    const Rules rules = read_rules(given);
    const auto s = checked_stage(found->placement, stage), c = checked_chunk(found->placement, chunk);
    write_struct(needs, to_c(schedules::validate(*found, rules.order, rules.life)[s].chunks[c]), "needs");
  });
}
