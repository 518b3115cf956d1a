// The order of a recorded run, read from its record.
#pragma once

#include <filesystem>
#include <memory>

#include "schedules/record/recorded_order.hpp"

namespace pipetrain {

// Replays the whole record: its order is one that the stages can keep to. Throws Error(input) for a record that is damaged, or
// does not replay.
std::shared_ptr<const schedules::RecordedOrder> read_recorded_order(const std::filesystem::path& file);

}  // namespace pipetrain
