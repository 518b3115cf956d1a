// The order in which processes pass copies of their states on.
#pragma once

#include <string>
#include <vector>

#include "core/mesh.hpp"

namespace pipetrain {

// Returns the processes that run ranks, as a ring: the buddy of each is the next one, and the first is that of the last.
// hosts: the host of each process; where it is given, the ring goes from host to host, so that each buddy is on another host
// than its process as far as the hosts have equally many.
std::vector<int> buddy_order(const Mesh& mesh, const std::vector<std::string>& hosts = {});

}  // namespace pipetrain
