// Computes the speed limit of a row: the speed if only matrix products and attention took time, at the rates that they
// reach on one device at the row's own shapes, with equal stages and without a bubble.
#pragma once

#include <string>
#include <vector>

#include "bench/gpu/op_bench.hpp"
#include "bench/gpu/rows.hpp"

namespace pipetrain::bench {

// One kind of operation on a tensor-parallel rank, for one microbatch.
struct LimitOp {
  std::string name;    // "gate_up weight_grad"
  double flops = 0;    // of one call
  double calls = 0;    // in the whole model for one microbatch: layers, or 1 for the head
  double seconds = 0;  // of one call, measured
};

// Returns the operations of the row's ranks, not measured yet: forward, input gradient and weight gradient of qkv, o,
// gate_up, down and head, attention forward and backward.
std::vector<LimitOp> limit_ops(const Row& row);

// Measures the seconds. The operations of a layer are called in rotation, as a step calls them, for `warm_up` seconds
// and then `measure` seconds, each between two timing events, so that the chip is as warm as in a step; takes medians.
void measure_limit(OpBench& bench, const Row& row, std::vector<LimitOp>& ops, double warm_up = 1, double measure = 2);

struct RowLimit {
  double tokens_per_second = 0;  // per device
  double matrix_tflops = 0;      // over all matrix products
  double attention_tflops = 0;   // causal counts half, the backward 2.5 times the forward
};
std::string to_json(const std::vector<LimitOp>& ops);
std::vector<LimitOp> limit_from_json(const std::string& text);

RowLimit limit_of(const Row& row, const std::vector<LimitOp>& ops);

}  // namespace pipetrain::bench
