// Runs of the golden models through the whole trainer, and the results that are compared between runs.
#pragma once

#include <cstdint>
#include <functional>
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
  bool offload = false;  // offloads the optimizer's states to a folder of this test
  std::optional<std::int64_t> recompute_layers = {};
  double activations = 0;   // offloads this fraction of microbatches to a folder of this test
  bool parameters = false;  // offloads the weights that operations read
  bool gradients = false;   // offloads the gradients of blocks' matrices
  int prefetch = 1;         // of offloaded weights, or of ZeRO 3
  int loss_chunks = 1;
  int slices = 1;  // of each microbatch
  int cp = 1;
  int ep = 1;    // of dp
  Cut cut = {};  // over the virtual stages
};

inline Layout with_recompute(Layout layout, Recompute recompute) {
  layout.recompute = recompute;
  return layout;
}
std::string to_string(const Layout& layout);
// Returns what the layout offloads, to a folder of this test.
Offload offload_of(const Layout& layout);

// The results that must have equal bits, or be close to the reference.
struct RunRecord {
  std::vector<double> loss, grad_norm, learning_rate;
  std::vector<double> aux_loss;  // of models with routed experts
  std::vector<double> mtp_loss;  // of a further prediction
  std::vector<std::int64_t> tokens;
  std::map<std::string, std::vector<float>> weights;  // full tensors after the last step
  bool operator==(const RunRecord&) const = default;
};

// Makes a job with the golden model's own data, optimizer and number of steps.
TrainJob golden_job(const std::string& name, const Layout& layout);
// Makes a job that trains the adapter of golden/adapters/NAME on its model.
TrainJob golden_adapter_job(const std::string& name, const Layout& layout);
// Makes a job for a tiny random model; the caller sets the rest.
TrainJob random_job(const ModelConfig& config, std::int64_t sequence, std::int64_t global_batch, const Layout& layout);
// Stores the plan in the job, as make_train_job() does; its layout must not change afterwards.
TrainJob with_plan(TrainJob job);

// Runs so many more steps than the job has done.
RunRecord run(TrainJob job, std::int64_t steps);
// Runs until so many steps are done, with this function in place of Trainer::step(). A process other than process 0 follows
// until it has become process 0, and records the steps after that.
RunRecord run(TrainJob job, std::int64_t steps, const std::function<StepReport(Trainer&)>& step);
// Returns the error with which a Trainer refuses the job, "slices 9: why", and checks that it is an input error; "none"
// if it is accepted.
std::string refusal(const TrainJob& job);

struct Reference {
  std::vector<double> loss, grad_norm;
  std::vector<double> aux_loss;  // of models with routed experts
  std::vector<double> mtp_loss;  // of a further prediction
  std::map<std::string, std::vector<float>> weights;
};
Reference golden_reference(const std::string& name);
Reference golden_adapter_reference(const std::string& name);

// Checks losses and balancing losses within 2e-5 relative, norms within 1e-4, and, if the reference has them, the last weights
// within 1e-4 except for a few elements.
void check_golden(const RunRecord& record, const Reference& reference);

// Checks that the losses of two layouts of a job agree within 2e-5 relative, and their norms within 2e-4.
void check_close(const RunRecord& record, const RunRecord& other);

}  // namespace pipetrain::test
