// The ranks of a run as a mesh with named axes: the only place that numbers ranks. Pure: it uses no device and no
// thread. A rank is one device's share of the run.
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
  ep,    // expert parallel: parts of the experts; each takes samples of its own
  tp,    // tensor parallel: parts of every matrix
  part,  // parts of a stage, in a mesh of stages: each stands for the ranks of one process
};
inline constexpr Axis mesh_axes[] = {Axis::dp, Axis::pp, Axis::cp, Axis::ep, Axis::tp, Axis::part};

// A rank's coordinates along all axes.
struct MeshCoordinate {
  int dp = 0, pp = 0, cp = 0, ep = 0, tp = 0, part = 0;
  int& operator[](Axis axis);
  int operator[](Axis axis) const;
  bool operator==(const MeshCoordinate&) const = default;
};
// Returns "stage 1, tp rank 0, replica 0", and the other axes where they are not 0.
std::string to_string(const MeshCoordinate& at);

// The number of ranks along each axis.
struct MeshShape {
  int dp = 1, pp = 1, cp = 1, ep = 1, tp = 1, part = 1;
  int operator[](Axis axis) const;
  bool operator==(const MeshShape&) const = default;
};

// Returns the number of ranks that share a stage's work: they run the same program; cp-major, tp fastest except for parts.
int stage_size(const MeshShape& shape);
// Returns a rank's number among those of its stage.
int stage_rank(const MeshCoordinate& at, const MeshShape& shape);

// The ranks that have the same weights, over replicas and parts of sequences and of experts, in the order of
// group({dp, cp, ep}).
int weight_copies(const MeshShape& shape);
int weight_copy(const MeshCoordinate& at, const MeshShape& shape);
MeshCoordinate at_weight_copy(int copy, const MeshShape& shape);  // of the first stage and tensor-parallel rank
// The ranks that have the same experts, in the order of group({dp, cp}).
int expert_copies(const MeshShape& shape);
int expert_copy(const MeshCoordinate& at, const MeshShape& shape);

// Each replica along dp and each part of the experts takes samples of its own.
int data_replica(const MeshCoordinate& at, const MeshShape& shape);

// The process and device that run a rank.
struct RankLocation {
  int process = 0;
  int device = 0;  // number of the device in its process
  bool operator==(const RankLocation&) const = default;
};

class Mesh {
 public:
  // Places all ranks in process 0, rank r on device r. Throws Error(input) for a size below 1 and more ranks than an
  // int counts.
  explicit Mesh(const MeshShape& shape);
  // places: one per rank. Throws Error(input) also when their number is not the mesh's, or a process or device is negative.
  Mesh(const MeshShape& shape, std::vector<RankLocation> places);

  const MeshShape& shape() const noexcept { return shape_; }
  int size() const noexcept { return size_; }  // ranks

  // Convert between ranks and coordinates, which must be in the mesh.
  int rank(const MeshCoordinate& at) const;
  MeshCoordinate at(int rank) const;

  // Returns the ranks that differ from this one along the given axes only, including it, in order.
  std::vector<int> group(int rank, std::initializer_list<Axis> axes) const;
  // Returns every such group once, ordered by its first rank; each rank is in exactly one.
  std::vector<std::vector<int>> groups(std::initializer_list<Axis> axes) const;
  // Returns the index in groups(axes) of the group that contains the rank.
  int group_index(int rank, std::initializer_list<Axis> axes) const;

  RankLocation place(int rank) const;
  int processes() const noexcept { return processes_; }
  // True when these ranks, at least one, do not all run in one process.
  bool spans_processes(const std::vector<int>& ranks) const;
  // Returns the ranks in order; empty for a process without ranks.
  std::vector<int> ranks_of(int process) const;

 private:
  MeshShape shape_;
  int size_;
  std::vector<RankLocation> places_;  // by rank; empty: all in process 0
  int processes_ = 1;
};

// Deals ranks to processes in order: the first size / processes to process 0, each on the device of its number in the
// process; with a remainder, the first processes run one rank more. Throws Error(input) for fewer ranks than processes.
std::vector<RankLocation> deal_ranks(int ranks, int processes);

}  // namespace pipetrain
