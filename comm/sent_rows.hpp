// Copies rows of an exchange in a host's memory.
#pragma once

#include <cstdint>

#include "core/process_group.hpp"

namespace pipetrain {

// Writes the rows [begin, end) that are sent to `target`, one after the other.
void copy_sent_rows(const RowExchange::Rows& rows, std::int64_t begin, std::int64_t end, void* target);

}  // namespace pipetrain
