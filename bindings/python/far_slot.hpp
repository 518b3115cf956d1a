// The Python view, `_engine.Slot`, of memory in which a value is sent between processes.
#pragma once

#include <nanobind/nanobind.h>

#include "comm/slot.hpp"

namespace pipetrain::python {

// Holds the GIL. The slot has one lane.
nanobind::object make_far_slot(const SlotHandle& slot);

}  // namespace pipetrain::python
