// Collectives between CPU streams of one process, through shared memory. Waiting streams sleep.
#pragma once

#include <memory>
#include <vector>

#include "core/process_group.hpp"

namespace pipetrain {

// One handle per rank; all share the meeting point. Sums run over ranks in order; each rank adds the rows that it owns.
std::vector<std::unique_ptr<Group>> make_inprocess_groups(int size);

}  // namespace pipetrain
