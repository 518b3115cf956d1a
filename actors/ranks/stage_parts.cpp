#include "actors/ranks/stage_parts.hpp"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

namespace pipetrain {
namespace {

// Returns the places within a stage at which the ranks of some stage continue in another process.
std::vector<int> cuts_between_processes(const Mesh& mesh) {
  std::set<int> cuts{0, stage_size(mesh.shape())};
  for (int rank = 1; rank < mesh.size(); ++rank) {
    const int number = stage_rank(mesh.at(rank), mesh.shape());
    if (number > 0 && mesh.place(rank).process != mesh.place(rank - 1).process) cuts.insert(number);
  }
  return {cuts.begin(), cuts.end()};
}

}  // namespace

StageParts::StageParts(Mesh mesh) : mesh_(std::move(mesh)), cuts_(cuts_between_processes(mesh_)) {}

std::vector<StageId> StageParts::beginning_with(const std::vector<int>& ranks) const {
  std::vector<StageId> stages;
  for (const int begin : ranks) {
    const MeshCoordinate at = mesh_.at(begin);
    const PartRank rank = part_rank(at);
    if (rank.number == 0) stages.push_back({at.dp, at.pp, rank.part});
  }
  return stages;
}

std::vector<int> StageParts::ranks_of(StageId id) const {
  const auto part = static_cast<std::size_t>(id.part);
  std::vector<int> ranks;
  const int first = mesh_.rank({.dp = id.replica, .pp = id.stage});
  for (int number = cuts_[part]; number < cuts_[part + 1]; ++number) ranks.push_back(first + number);
  return ranks;
}

StageParts::PartRank StageParts::part_rank(int stage_rank) const {
  const auto next = std::upper_bound(cuts_.begin(), cuts_.end(), stage_rank);
  return {static_cast<int>(next - cuts_.begin()) - 1, stage_rank - *std::prev(next)};
}

Mesh StageParts::stage_mesh() const {
  std::vector<RankLocation> places;
  for (int rank = 0; rank < mesh_.size(); ++rank) {
    if (part_rank(mesh_.at(rank)).number == 0) places.push_back(mesh_.place(rank));
  }
  const MeshShape& shape = mesh_.shape();
  return Mesh({.dp = shape.dp, .pp = shape.pp, .part = count()}, std::move(places));
}

}  // namespace pipetrain
