// Runs of the golden models through the whole trainer, and what is compared between runs.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "actors/training/run/trainer.hpp"

namespace pipetrain::test {

struct Layout {
  int pp = 1, tp = 1, dp = 1, microbatch = 1;
  std::string schedule = "1f1b";
  int chunks = 1;
  schedules::Order order = schedules::Order::planned;
  bool sequence_parallel = true;
  int threads = 1;
  Recompute recompute = Recompute::none;
  int zero = 0;
  bool offload = false;  // the optimizer's states, to a folder of this test
  std::optional<std::int64_t> recompute_layers = {};
  double activations = 0;   // this fraction of microbatches leaves the devices, for a folder of this test
  bool parameters = false;  // the weights that operations read, likewise
  bool gradients = false;   // of blocks' matrices, likewise
  int prefetch = 1;         // of them, or of ZeRO 3
  int loss_chunks = 1;
  int slices = 1;  // of each microbatch
  int cp = 1;
  Cut cut = {};  // over the virtual stages
};

std::string to_string(const Layout& layout);

// What must be equal to the bit, or close to the reference.
struct RunRecord {
  std::vector<double> loss, grad_norm, learning_rate;
  std::vector<std::int64_t> tokens;
  std::map<std::string, std::vector<float>> weights;  // full tensors after the last step
  bool operator==(const RunRecord&) const = default;
};

// The golden model's own data, optimizer and number of steps.
TrainJob golden_job(const std::string& name, const Layout& layout);
// A tiny random model: the caller sets what is particular.
TrainJob random_job(const ModelConfig& config, std::int64_t sequence, std::int64_t global_batch, const Layout& layout);
// The job keeps its plan, as one that make_train_job() gives; its layout may no longer change.
TrainJob with_plan(TrainJob job);

RunRecord run(TrainJob job, std::int64_t steps);
// What the job's Trainer is refused with, "slices 9: why"; checks that it is an error of input. "none" where it is not.
std::string refusal(const TrainJob& job);

struct Reference {
  std::vector<double> loss, grad_norm;
  std::map<std::string, std::vector<float>> weights;
};
Reference golden_reference(const std::string& name);

// Checks losses within 2e-5 relative, norms within 1e-4, and, where the reference has them, the last weights within 1e-4 but
// for a handful of elements.
void check_golden(const RunRecord& record, const Reference& reference);

}  // namespace pipetrain::test
