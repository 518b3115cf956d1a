#include "core/mesh.hpp"

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <iterator>
#include <limits>
#include <utility>

#include "core/error.hpp"

namespace pipetrain {
namespace {

const char* name_of(Axis axis) {
  switch (axis) {
    case Axis::dp:
      return "dp";
    case Axis::pp:
      return "pp";
    case Axis::cp:
      return "cp";
    case Axis::ep:
      return "ep";
    case Axis::tp:
      return "tp";
    case Axis::part:
      return "part";
  }
  return "?";
}

template <class Values>
auto& along(Values& values, Axis axis) {
  switch (axis) {
    case Axis::dp:
      return values.dp;
    case Axis::pp:
      return values.pp;
    case Axis::cp:
      return values.cp;
    case Axis::ep:
      return values.ep;
    case Axis::tp:
      return values.tp;
    default:
      return values.part;
  }
}

bool contains(std::initializer_list<Axis> axes, Axis axis) { return std::find(axes.begin(), axes.end(), axis) != axes.end(); }

int count_ranks(const MeshShape& shape) {
  std::int64_t ranks = 1;
  for (const Axis axis : mesh_axes) {
    if (shape[axis] < 1) {
      throw Error(ErrorKind::input,
                  std::string(name_of(axis)) + " is " + std::to_string(shape[axis]) + "; it must be at least 1");
    }
    ranks *= shape[axis];
    if (ranks > std::numeric_limits<int>::max()) {
      throw Error(ErrorKind::input, std::string("the product of the parallel sizes up to ") + name_of(axis) + " is more than " +
                                        std::to_string(std::numeric_limits<int>::max()) + "; make them smaller");
    }
  }
  return static_cast<int>(ranks);
}

}  // namespace

int& MeshCoordinate::operator[](Axis axis) { return along(*this, axis); }
int MeshCoordinate::operator[](Axis axis) const { return along(*this, axis); }
int MeshShape::operator[](Axis axis) const { return along(*this, axis); }

std::string to_string(const MeshCoordinate& at) {
  std::string text = "stage " + std::to_string(at.pp) + ", tp rank " + std::to_string(at.tp);
  if (at.cp > 0) text += ", cp rank " + std::to_string(at.cp);
  if (at.ep > 0) text += ", ep rank " + std::to_string(at.ep);
  if (at.part > 0) text += ", part " + std::to_string(at.part);
  return text + ", replica " + std::to_string(at.dp);
}

int stage_size(const MeshShape& shape) { return shape.cp * shape.ep * shape.tp * shape.part; }
int stage_rank(const MeshCoordinate& at, const MeshShape& shape) {
  return ((at.cp * shape.ep + at.ep) * shape.tp + at.tp) * shape.part + at.part;
}
int weight_copies(const MeshShape& shape) { return expert_copies(shape) * shape.ep; }
int weight_copy(const MeshCoordinate& at, const MeshShape& shape) { return expert_copy(at, shape) * shape.ep + at.ep; }
MeshCoordinate at_weight_copy(int copy, const MeshShape& shape) {
  return {.dp = copy / shape.ep / shape.cp, .cp = copy / shape.ep % shape.cp, .ep = copy % shape.ep};
}
int expert_copies(const MeshShape& shape) { return shape.dp * shape.cp; }
int expert_copy(const MeshCoordinate& at, const MeshShape& shape) { return at.dp * shape.cp + at.cp; }
int data_replica(const MeshCoordinate& at, const MeshShape& shape) { return at.dp * shape.ep + at.ep; }

Mesh::Mesh(const MeshShape& shape) : shape_(shape), size_(count_ranks(shape)) {}

Mesh::Mesh(const MeshShape& shape, std::vector<RankLocation> places) : Mesh(shape) {
  places_ = std::move(places);
  if (places_.size() != static_cast<std::size_t>(size_)) {
    throw Error(ErrorKind::input, std::to_string(places_.size()) + " places are given for " + std::to_string(size_) + " ranks");
  }
  for (int rank = 0; rank < size_; ++rank) {
    const RankLocation own = place(rank);
    if (own.process < 0 || own.device < 0) {
      throw Error(ErrorKind::input, "rank " + std::to_string(rank) + " is placed on device " + std::to_string(own.device) +
                                        " of process " + std::to_string(own.process) + "; both count from 0");
    }
    processes_ = std::max(processes_, own.process + 1);
  }
}

int Mesh::rank(const MeshCoordinate& at) const {
  int rank = 0;
  for (const Axis axis : mesh_axes) {
    assert(at[axis] >= 0 && at[axis] < shape_[axis]);
    rank = rank * shape_[axis] + at[axis];
  }
  return rank;
}

MeshCoordinate Mesh::at(int rank) const {
  assert(rank >= 0 && rank < size());
  MeshCoordinate at;
  for (auto axis = std::rbegin(mesh_axes); axis != std::rend(mesh_axes); ++axis) {
    at[*axis] = rank % shape_[*axis];
    rank /= shape_[*axis];
  }
  return at;
}

std::vector<int> Mesh::group(int rank, std::initializer_list<Axis> axes) const {
  const int index = group_index(rank, axes);
  std::vector<int> members;
  for (int other = 0; other < size(); ++other) {
    if (group_index(other, axes) == index) members.push_back(other);
  }
  return members;
}

std::vector<std::vector<int>> Mesh::groups(std::initializer_list<Axis> axes) const {
  std::vector<std::vector<int>> groups;
  for (int rank = 0; rank < size(); ++rank) {
    const auto index = static_cast<std::size_t>(group_index(rank, axes));
    if (index >= groups.size()) groups.resize(index + 1);
    groups[index].push_back(rank);
  }
  return groups;
}

// Returns the rank's number in the mesh without those axes: groups are ordered by their first ranks.
int Mesh::group_index(int rank, std::initializer_list<Axis> axes) const {
  const MeshCoordinate own = at(rank);
  int index = 0;
  for (const Axis axis : mesh_axes) {
    if (!contains(axes, axis)) index = index * shape_[axis] + own[axis];
  }
  return index;
}

RankLocation Mesh::place(int rank) const {
  assert(rank >= 0 && rank < size_);
  return places_.empty() ? RankLocation{0, rank} : places_[static_cast<std::size_t>(rank)];
}

bool Mesh::spans_processes(const std::vector<int>& ranks) const {
  return std::any_of(ranks.begin(), ranks.end(), [&](int rank) { return place(rank).process != place(ranks.front()).process; });
}

std::vector<int> Mesh::ranks_of(int process) const {
  std::vector<int> ranks;
  for (int rank = 0; rank < size(); ++rank) {
    if (place(rank).process == process) ranks.push_back(rank);
  }
  return ranks;
}

std::vector<RankLocation> deal_ranks(int ranks, int processes) {
  if (processes < 1 || ranks < processes) {
    throw Error(ErrorKind::input, std::to_string(ranks) + " ranks cannot be dealt to " + std::to_string(processes) +
                                      " processes; each needs at least one");
  }
  std::vector<RankLocation> places;
  for (int process = 0; process < processes; ++process) {
    const int own = ranks / processes + (process < ranks % processes ? 1 : 0);
    for (int device = 0; device < own; ++device) places.push_back({process, device});
  }
  return places;
}

}  // namespace pipetrain
