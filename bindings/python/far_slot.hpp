// Memory that a value travels through between processes, as Python sees it: `_engine.Slot`.
#pragma once

#include <nanobind/nanobind.h>

#include "comm/slot.hpp"

namespace pipetrain::python {

// Holds the GIL. The slot has one lane.
nanobind::object make_far_slot(const SlotHandle& slot);

}  // namespace pipetrain::python
