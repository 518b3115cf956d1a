// The ranks of a run as a mesh with named axes: the only place that knows how ranks are numbered. Pure: it knows of no device
// and no thread. A rank is one device's share of the run.
//
// Ranks count from 0 in the order of the axes below, the last fastest: dp, pp, cp, ep, tp, part. An axis of size 1 changes
// nothing.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

namespace pipetrain {

enum class Axis {
  dp,    // data parallel: the replicas
  pp,    // pipeline parallel: the stages
  cp,    // context parallel: parts of a sequence
  ep,    // expert parallel: parts of the experts
  tp,    // tensor parallel: parts of every matrix
  part,  // of a stage, where a mesh is one of stages cut into parts: each stands for ranks of one process
};
inline constexpr Axis mesh_axes[] = {Axis::dp, Axis::pp, Axis::cp, Axis::ep, Axis::tp, Axis::part};

// A rank's place along every axis.
struct MeshCoordinate {
  int dp = 0, pp = 0, cp = 0, ep = 0, tp = 0, part = 0;
  int& operator[](Axis axis);
  int operator[](Axis axis) const;
  bool operator==(const MeshCoordinate&) const = default;
};
// "stage 1, tp rank 0, replica 0"; the other axes where they are not 0.
std::string to_string(const MeshCoordinate& at);

// Ranks along every axis.
struct MeshShape {
  int dp = 1, pp = 1, cp = 1, ep = 1, tp = 1, part = 1;
  int operator[](Axis axis) const;
  bool operator==(const MeshShape&) const = default;
};

// The ranks of a stage share its work: they run the same program, cp-major, tp fastest but for parts.
int stage_size(const MeshShape& shape);
// A rank's number among those of its stage.
int stage_rank(const MeshCoordinate& at, const MeshShape& shape);

// The ranks that have the same weights, replicas and parts of sequences alike, in the order of group({dp, cp}).
int weight_copies(const MeshShape& shape);
int weight_copy(const MeshCoordinate& at, const MeshShape& shape);

// Where a rank runs.
struct RankPlace {
  int process = 0;
  int device = 0;  // number of the device on its host
  bool operator==(const RankPlace&) const = default;
};

class Mesh {
 public:
  // All ranks in process 0, rank r on device r. Throws Error(input) for a size below 1 and more ranks than an int counts.
  explicit Mesh(const MeshShape& shape);
  // places: one a rank. Throws Error(input) also when their number is not the mesh's, or a process or device is negative.
  Mesh(const MeshShape& shape, std::vector<RankPlace> places);

  const MeshShape& shape() const noexcept { return shape_; }
  int size() const noexcept { return size_; }  // ranks

  // Ranks <-> coordinates. The rank, and the coordinate, must be in the mesh.
  int rank(const MeshCoordinate& at) const;
  MeshCoordinate at(int rank) const;

  // The ranks that differ from this one along the given axes only, itself included, in order.
  std::vector<int> group(int rank, std::initializer_list<Axis> axes) const;
  // Every such group once, ordered by its first rank; each rank is in exactly one.
  std::vector<std::vector<int>> groups(std::initializer_list<Axis> axes) const;
  // The place in groups(axes) of the group that the rank is in.
  int group_index(int rank, std::initializer_list<Axis> axes) const;

  RankPlace place(int rank) const;
  int processes() const noexcept { return processes_; }
  // Whether not all of these ranks, at least one, run in one process.
  bool spans_processes(const std::vector<int>& ranks) const;
  // In order; empty for a process that runs none.
  std::vector<int> ranks_of(int process) const;

 private:
  MeshShape shape_;
  int size_;
  std::vector<RankPlace> places_;  // by rank; empty: all in process 0
  int processes_ = 1;
};

// Deals ranks in order: the first size / processes to process 0, each on the device of its number in the process; where it does
// not come out even, the first processes run one rank more. Throws Error(input) for fewer ranks than processes.
std::vector<RankPlace> deal_ranks(int ranks, int processes);

}  // namespace pipetrain
