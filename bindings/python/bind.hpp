// The declarations that the files of the extension share. Each bind_ function adds its part to the module.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "schedules/plan/plan.hpp"
#include "schedules/plan/validate.hpp"

namespace pipetrain::python {

void bind_errors(nanobind::module_& module);
void bind_plan(nanobind::module_& module);
void bind_simulation(nanobind::module_& module);
void bind_pipeline(nanobind::module_& module);
void bind_world(nanobind::module_& module);
void bind_training(nanobind::module_& module);

// Reads "planned" or "ready". Throws Error(input), as the others do.
schedules::Order order_of(const std::string& word);
// The last actions that read the inputs: "F", "I", "W"; empty: the default.
schedules::SlotLife life_of(const std::string& activation, const std::string& gradient);

// The exception of the Python callback that ended a step becomes the cause of the one that step() raises. Holds the GIL.
void raise_run_failed(const std::exception& failed, const nanobind::object& cause);

}  // namespace pipetrain::python
