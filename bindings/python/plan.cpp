// Plans in Python.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings/guest/plan_building.hpp"
#include "bindings/python/bind.hpp"
#include "core/error.hpp"
#include "schedules/builders/builders.hpp"
#include "schedules/plan/plan_text.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace pipetrain::python {

namespace {

using schedules::ActionKind;
using schedules::Plan;

ActionKind life_of(const char* name, const std::string& letter, ActionKind otherwise) {
  if (letter.empty()) return otherwise;
  if (letter == "F") return ActionKind::forward;
  if (letter == "I") return ActionKind::input_grad;
  if (letter == "W") return ActionKind::weight_grad;
  throw Error(ErrorKind::input, {name, letter}, "must be F, I or W");
}

std::vector<std::string> actions_of(const Plan& plan, int stage) {
  if (stage < 0 || stage >= plan.placement.stages())
    throw Error(ErrorKind::input, {"stage", std::to_string(stage)},
                "the plan has stages 0 to " + std::to_string(plan.placement.stages() - 1));
  std::vector<std::string> actions;
  for (const auto& action : plan.stages[static_cast<std::size_t>(stage)]) actions.push_back(to_string(action, plan.form()));
  return actions;
}

nb::list customs_of(const Plan& plan) {
  nb::list all;
  for (const auto& one : plan.custom) {
    std::vector<std::pair<int, std::string>> after;
    for (const auto& awaited : one.after) after.emplace_back(awaited.stage, to_string(awaited.action, plan.form()));
    nb::dict custom;
    custom["name"] = one.name;
    custom["stage"] = one.stage;
    custom["after"] = after;
    custom["resources"] = one.resources;
    all.append(custom);
  }
  return all;
}

nb::dict needs_of(const schedules::ChunkNeeds& needs) {
  nb::dict result;
  result["activation_slots"] = needs.activation_slots;
  result["gradient_slots"] = needs.gradient_slots;
  result["target_slots"] = needs.target_slots;
  result["peak_activations"] = needs.peak_activations;
  result["peak_pending_weight_grads"] = needs.peak_pending_weight_grads;
  return result;
}

nb::list validate(const Plan& plan, const std::string& order, const std::string& activation_life,
                  const std::string& gradient_life) {
  nb::list stages;
  for (const auto& stage : schedules::validate(plan, order_of(order), python::life_of(activation_life, gradient_life))) {
    nb::list chunks;
    for (const auto& chunk : stage.chunks) chunks.append(needs_of(chunk));
    stages.append(chunks);
  }
  return stages;
}

std::string repr(const Plan& plan) {
  return "<pipetrain.Plan " + plan.schedule + ": " + std::to_string(plan.placement.stages()) + " stages, " +
         std::to_string(plan.placement.chunks()) + " chunks a stage, " + std::to_string(plan.microbatches) + " microbatches>";
}

Plan parse(const std::string& text, const std::string& name, bool csv) {
  return without_slices(csv ? schedules::parse_pytorch_csv(text, name) : schedules::parse_plan(text, name));
}

std::vector<std::tuple<std::string, int, bool, bool>> all_schedules() {
  std::vector<std::tuple<std::string, int, bool, bool>> all;
  for (const auto& info : schedules::all_schedules())
    all.emplace_back(info.name, info.default_chunks, info.chunks_can_vary, info.has_ready_rule);
  return all;
}

}  // namespace

schedules::Order order_of(const std::string& word) {
  if (word == "planned") return schedules::Order::planned;
  if (word == "ready") return schedules::Order::ready;
  throw Error(ErrorKind::input, {"order", word}, "must be planned or ready");
}

schedules::SlotLife life_of(const std::string& activation, const std::string& gradient) {
  schedules::SlotLife life;
  life.activation = life_of("activation_life", activation, life.activation);
  life.gradient = life_of("gradient_life", gradient, life.gradient);
  return life;
}

void bind_plan(nb::module_& module) {
  module.def("all_schedules", all_schedules,
             "Name, default chunks, whether chunks can vary, whether order='ready' is possible.");
  nb::class_<Plan>(module, "Plan", "An order of actions for every stage, and where each piece of the model lives.")
      .def_static(
          "build",
          [](const std::string& schedule, int stages, int microbatches, int chunks) {
            return build_any_plan(schedule, {stages, chunks, microbatches});
          },
          "schedule"_a, "stages"_a, "microbatches"_a, "chunks"_a = 0, "The compute of one step, by the schedule's name.")
      .def_static("read", read_any_plan, "path"_a,
                  "Reads a file: PyTorch's CSV where its name ends in .csv, else pipetrain's text.")
      .def_static("parse", parse, "text"_a, "name"_a = "plan", "csv"_a = false, "Reads text, which errors call by `name`.")
      .def(
          "with_end",
          [](const Plan& plan, bool reduce, bool sum_replicated, bool sum_tied) {
            return end_plan(plan, {reduce, sum_replicated, sum_tied});
          },
          "reduce"_a = false, "sum_replicated"_a = false, "sum_tied"_a = false,
          "A new plan with R, S and T where asked for, and N and O, at its end.")
      .def("validate", validate, "order"_a = "planned", "activation_life"_a = "", "gradient_life"_a = "",
           "Proves the plan, or raises PlanError. Returns what each chunk of each stage must reserve.")
      .def("actions", actions_of, "stage"_a, "The list of a stage, such as ['F0', 'B0'].")
      .def(
          "virtual_stage",
          [](const Plan& plan, int stage, int chunk) {
            actions_of(plan, stage);
            if (chunk < 0 || chunk >= plan.placement.chunks())
              throw Error(ErrorKind::input, {"chunk", std::to_string(chunk)}, "the plan has fewer chunks a stage");
            return plan.placement.virtual_stage(stage, chunk);
          },
          "stage"_a, "chunk"_a, "The piece of the model, counted from its input, that this chunk of this stage is.")
      .def(
          "text", [](const Plan& plan) { return schedules::to_text(plan); }, "The plan as text in pipetrain's format.")
      .def(
          "csv", [](const Plan& plan) { return schedules::to_pytorch_csv(plan); },
          "The plan as PyTorch's CSV, without the end of step.")
      .def_prop_ro("schedule", [](const Plan& plan) { return plan.schedule; })
      .def_prop_ro("stages", [](const Plan& plan) { return plan.placement.stages(); })
      .def_prop_ro(
          "chunks", [](const Plan& plan) { return plan.placement.chunks(); }, "Per stage.")
      .def_prop_ro("microbatches", [](const Plan& plan) { return plan.microbatches; })
      .def_prop_ro("custom", customs_of,
                   "The custom actions, by number: name, stage, after (pairs of stage and action) and resources of each.")
      .def_prop_ro("has_end", has_end_of_step, "True if N and O are there.")
      .def("__repr__", repr);
}

}  // namespace pipetrain::python
