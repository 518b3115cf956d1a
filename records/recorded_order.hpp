// Reads the order of a recorded run from its record.
#pragma once

#include <filesystem>
#include <memory>

#include "schedules/record/recorded_order.hpp"

namespace pipetrain {

// Replays the whole record, which shows that the stages can follow its order. Throws Error(input) if the record is
// damaged or cannot be replayed.
std::shared_ptr<const schedules::RecordedOrder> read_recorded_order(const std::filesystem::path& file);

}  // namespace pipetrain
