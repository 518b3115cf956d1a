#include "apps/output/process_label.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace pipetrain {

namespace {

// Returns "stage 1", "stages 0-1", or nothing if there is only one.
std::string range(const char* one, const Mesh& mesh, const std::vector<int>& ranks, Axis axis) {
  if (mesh.shape()[axis] == 1) return "";
  int first = mesh.shape()[axis], last = 0;
  for (const int rank : ranks) {
    first = std::min(first, mesh.at(rank)[axis]);
    last = std::max(last, mesh.at(rank)[axis]);
  }
  return first == last ? fmt::format(", {} {}", one, first) : fmt::format(", {}s {}-{}", one, first, last);
}

}  // namespace

ProcessLabels::ProcessLabels(const MeshShape& shape, int processes) : mesh_(shape, deal_ranks(Mesh(shape).size(), processes)) {}

std::string ProcessLabels::ranks(int process) const {
  const auto ranks = mesh_.ranks_of(process);
  if (ranks.empty()) return "spare";
  return ranks.size() == 1 ? fmt::format("rank {}", ranks.front()) : fmt::format("ranks {}-{}", ranks.front(), ranks.back());
}

std::string ProcessLabels::label(int process) const {
  const auto own = mesh_.ranks_of(process);
  if (own.empty()) return ranks(process);
  return ranks(process) + range("stage", mesh_, own, Axis::pp) + range("replica", mesh_, own, Axis::dp);
}

std::string ProcessLabels::name(int process, const std::string& host) const {
  return fmt::format("process {} ({}) on host {}", process, label(process), host);
}

}  // namespace pipetrain
