// Copies rows of an exchange in a host's memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/process_group.hpp"

namespace pipetrain {

// Writes the rows [begin, end) that are sent to `target`, one after the other.
void copy_sent_rows(const RowExchange::Rows& rows, std::int64_t begin, std::int64_t end, void* target);
// Returns the rows [begin, end) that are sent: those of the source itself, or a copy in their order, which `memory` then holds.
Tensor sent_rows(const RowExchange::Rows& rows, std::int64_t begin, std::int64_t end, std::vector<std::byte>& memory);

}  // namespace pipetrain
