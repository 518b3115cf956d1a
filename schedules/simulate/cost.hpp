// How long everything in a plan takes. Times are in any one unit (the command line's default is "one F of a whole stage").
#pragma once

#include <limits>
#include <vector>

#include "schedules/plan/plan.hpp"

namespace pipetrain::schedules {

struct ChunkCost {
  double forward = 1;
  double input_grad = 1;
  // Of these times, the share that attention has: with slices a microbatch's later ones have more of it.
  double forward_attention = 0, input_grad_attention = 0;
  // Of forward and of input_grad each: what the stage waits for other tensor-parallel ranks, in so many collectives, where
  // nothing else is braided with it (braids.hpp).
  double tp_communication = 0;
  int tp_collectives = 1;
  double weight_grad = 1;  // B takes input_grad + weight_grad
  double reduce_grads = 0;
  double sum_replicated = 0;
  double sum_tied = 0;
  // What data-parallel replicas exchange beside the chunk's compute (replica_exchanges.hpp): sums of its gradients, and its new
  // weights from those who stepped them.
  double overlapped_reduce = 0, publish_weights = 0;
  double offload = 0, reload = 0;  // beside compute; moves of one direction follow each other
  double held_bytes = 0;           // kept from F to B or W for one microbatch
  double pending_bytes = 0;        // kept on top from I to W
};

// Times, bytes and rates that options or files give are 0 (where that makes sense) or in this range: then a double is precise
// enough for every sum, share and quotient of a plan's times.
constexpr double smallest_cost = 1e-100, largest_cost = 1e100;

// One activation or one gradient arrives latency + bytes / bytes_per_time after its producer ended. It delays only the
// receiver.
struct Link {
  double latency = 0;
  double bytes_per_time = std::numeric_limits<double>::infinity();
  double bytes = 0;

  double transfer() const { return latency + bytes / bytes_per_time; }
};

// The number of the edge that joins stages a and b: edge s is between stages s and s + 1, and where chunks go round, one more
// edge is between the last stage and the first.
int edge_between(int a, int b, int stages);
// How many of these edges a placement uses, counted from edge 0: stages - 1, or stages where chunks go round.
int edges_used(const Placement& placement);

struct Costs {
  std::vector<std::vector<ChunkCost>> chunks;  // [stage][chunk]
  std::vector<double> norm, optimizer;         // [stage]; empty: 0
  std::vector<double> custom;                  // of the plan's custom actions, by number; empty: 0
  std::vector<Link> links;                     // [v]: between virtual stages v and v + 1, both ways; empty: no delay
  double verdict = 0;                          // from the last norm to every optimizer
  // Of a microbatch, as Plan::slices: of() and transfer() are then of one, and times and bytes above still of all together.
  int slices = 1;

  // The time of a whole stage for one microbatch, shared evenly by its chunks; p2p is the latency of every link between
  // different stages.
  static Costs uniform(const Placement& placement, double forward, double input_grad, double weight_grad, double p2p = 0);
  // The same with one value per stage.
  static Costs per_stage(const Placement& placement, const std::vector<double>& forward, const std::vector<double>& input_grad,
                         const std::vector<double>& weight_grad, double p2p = 0);
  // Gives every link between different stages that of its edge; throws std::invalid_argument when an edge in use has none.
  void set_edges(const Placement& placement, const std::vector<Link>& edges);

  double of(int stage, const Action& action) const;
  double transfer(int v) const;  // over the link between v and v + 1
  // Sum of a step's compute on a stage, without its tensor-parallel communication; microbatches: the plan's, of slices their
  // pieces.
  double compute(int stage, int microbatches) const;
};

// The same where the times of F, I and W, and the bytes of messages, are of one slice, on the average.
Costs of_slices(Costs costs, int slices);

// Throws std::invalid_argument, one line, when sizes do not fit the placement, a compute time is not positive and finite, or
// another time is negative or not finite.
void check_costs(const Costs& costs, const Placement& placement);

}  // namespace pipetrain::schedules
