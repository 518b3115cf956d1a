#include "actors/training/copies/buddy_order.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace pipetrain {

std::vector<int> buddy_order(const Mesh& mesh, const std::vector<std::string>& hosts) {
  std::set<int> holders;
  for (int rank = 0; rank < mesh.size(); ++rank) holders.insert(mesh.place(rank).process);
  std::map<std::string, int> of_host;      // processes so far
  std::vector<std::pair<int, int>> order;  // the number of a process on its host, and the process
  for (const int process : holders)
    order.emplace_back(hosts.empty() ? 0 : of_host[hosts[static_cast<std::size_t>(process)]]++, process);
  std::sort(order.begin(), order.end());
  std::vector<int> ring;
  for (const auto& [number, process] : order) ring.push_back(process);
  return ring;
}

}  // namespace pipetrain
