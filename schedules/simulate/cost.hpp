// The durations of everything in a plan. Times are in any one unit (the command line's default is "one F of a whole stage").
#pragma once

#include <limits>
#include <vector>

#include "schedules/plan/plan.hpp"

namespace pipetrain::schedules {

struct ChunkCost {
  double forward = 1;
  double input_grad = 1;
  // The share of attention in these times: with slices, later ones take more of it.
  double forward_attention = 0, input_grad_attention = 0;
  // The time that forward and input_grad each wait for exchanges with other ranks of the stage, which divide its matrices or
  // experts, if no braid hides it (braids.hpp), and the number of collectives in which they wait.
  double communication = 0;
  int collectives = 1;
  double weight_grad = 1;  // B takes input_grad + weight_grad
  double reduce_grads = 0;
  double sum_replicated = 0;
  double sum_tied = 0;
  // The time of exchanges with data-parallel replicas that overlap with the chunk's compute (replica_exchanges.hpp):
  // sums of its gradients, and its new weights from the replicas that stepped them.
  double overlapped_reduce = 0, publish_weights = 0;
  double offload = 0, reload = 0;  // overlap with compute; moves of one direction run one after the other
  double held_bytes = 0;           // kept from F to B or W for one microbatch
  double pending_bytes = 0;        // kept additionally from I to W
};

// Times, bytes and rates in options or files are 0 (where that makes sense) or in this range, for which a double is
// precise enough for every sum, share and quotient of a plan's times.
constexpr double smallest_cost = 1e-100, largest_cost = 1e100;

// An activation or gradient arrives latency + bytes / bytes_per_time after its producer ended. It delays only the receiver.
struct Link {
  double latency = 0;
  double bytes_per_time = std::numeric_limits<double>::infinity();
  double bytes = 0;

  double transfer() const { return latency + bytes / bytes_per_time; }
};

// Returns the number of the edge that joins stages a and b: edge s is between stages s and s + 1; where chunks go
// round, one more edge is between the last stage and the first.
int edge_between(int a, int b, int stages);
// Returns how many of these edges a placement uses, counted from edge 0: stages - 1, or stages where chunks go round.
int edges_used(const Placement& placement);

struct Costs {
  std::vector<std::vector<ChunkCost>> chunks;  // [stage][chunk]
  std::vector<double> norm, optimizer;         // [stage]; empty: 0
  std::vector<double> custom;                  // of the plan's custom actions, by number; empty: 0
  std::vector<Link> links;                     // [v]: between virtual stages v and v + 1, in both directions; empty: no delay
  double verdict = 0;                          // from the last norm to every optimizer
  // As in Plan::slices: of() and transfer() are for one slice; times and bytes above stay those of a whole microbatch.
  int slices = 1;

  // The times of a whole stage for one microbatch, shared evenly by its chunks; p2p is the latency of every link
  // between different stages.
  static Costs uniform(const Placement& placement, double forward, double input_grad, double weight_grad, double p2p = 0);
  // The same with one value per stage.
  static Costs per_stage(const Placement& placement, const std::vector<double>& forward, const std::vector<double>& input_grad,
                         const std::vector<double>& weight_grad, double p2p = 0);
  // Gives every link between different stages the costs of its edge; throws std::invalid_argument when an edge in use has none.
  void set_edges(const Placement& placement, const std::vector<Link>& edges);

  double of(int stage, const Action& action) const;
  double transfer(int v) const;  // over the link between v and v + 1
  // Returns the sum of a step's compute on a stage, without the communication within the stage; microbatches: the plan's
  // number of microbatches or slices.
  double compute(int stage, int microbatches) const;
};

// Converts costs in which the times of F, I and W and the bytes of messages are those of an average slice.
Costs of_slices(Costs costs, int slices);

// Throws std::invalid_argument, one line, when sizes do not fit the placement, a compute time is not positive and
// finite, or another time is negative or not finite.
void check_costs(const Costs& costs, const Placement& placement);

}  // namespace pipetrain::schedules
