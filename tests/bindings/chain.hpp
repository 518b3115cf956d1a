// A model of numbers for the C API's pipelines: each virtual stage multiplies by its weight, and the loss is the mean
// square of the product's error. Slots are DLPack tensors of one double.
#pragma once

#include <dlpack/dlpack.h>

#include <atomic>
#include <deque>
#include <string>
#include <thread>
#include <vector>

#include "bindings/c_support.hpp"

namespace pipetrain::test {

// The mistake that a test makes a stage commit.
enum class Fault { none, error, exception, no_answer, no_return };

// The threads that run the actions, and how they are answered; with `launch` the test's own threads answer.
enum class Way { run, run_on_any_thread, launch };
inline constexpr Way ways[] = {Way::run, Way::run_on_any_thread, Way::launch};

struct ChainOptions {
  const char* schedule = "1f1b";
  std::string plan = {};  // a plan's text, for the same stages and microbatches, instead of the schedule
  int stages = 3, chunks = 0, microbatches = 6;
  int order = PIPETRAIN_PLANNED;
  Way way = Way::run;
  Fault fault = Fault::none;
  double stall_seconds = 0, grace_seconds = 0.3;
};

class Chain {
 public:
  explicit Chain(const ChainOptions& options);
  ~Chain();
  Chain(const Chain&) = delete;
  Chain& operator=(const Chain&) = delete;

  pipetrain_status create();
  pipetrain_status step(int number);
  pipetrain_status evaluate();
  pipetrain_stage* handle() const { return stages_.front().handle; }
  pipetrain_pipeline* pipeline() const { return pipeline_.get(); }
  pipetrain_status free_pipeline();

  const std::vector<double>& weights() const { return weights_; }
  double loss() const { return loss_; }
  // The names of the custom actions that ran, stage by stage.
  const std::string& customs() const { return customs_; }
  // The first stage's actions in the latest step or evaluation, with "=" before the verdict of a step and "-" if it is
  // to be skipped.
  const std::string& launched() const { return launched_; }
  int tensors_alive() const { return tensors_alive_; }
  void let_return() {
    may_return_ = true;
    may_return_.notify_all();
  }

  // Runs the same training without a pipeline.
  static std::vector<double> reference(int virtual_stages, int microbatches, int steps);
  static constexpr double learning_rate = 0.01;
  static double first_weight(int virtual_stage) { return 1 + 0.05 * virtual_stage; }
  static double input(int microbatch) { return 1 + 0.1 * microbatch; }

 private:
  struct Stage {
    Chain* chain = nullptr;
    pipetrain_stage* handle = nullptr;
    std::vector<double> gradients, loss;  // by chunk; the loss in one place
    std::vector<double> errors;           // by microbatch
    std::vector<int> virtual_stages;
    std::vector<std::thread> answers;
  };
  static int make_compute(void* user, const pipetrain_stage_request* request, pipetrain_compute* compute);
  static int make_slots(void* user, int32_t kind, int32_t chunk, pipetrain_slot* const* slots, size_t count);
  static int begin_step(void* user, const pipetrain_step* step);
  static int launch(void* user, const pipetrain_launch* launch);
  static int run(void* user, const pipetrain_launch* launch, double* results, size_t capacity, size_t* count);
  static int verdict(void* user, const pipetrain_verdict* verdict);
  static int fill(void* user, int32_t replica, int32_t kind, const pipetrain_step* step, int32_t microbatch,
                  pipetrain_slot* slot);
  static int decide(void* user, const double* const* results, const size_t* counts, size_t stages, pipetrain_verdict* verdict);
  bool does_wrong(const pipetrain_launch& launch, int& code);
  std::vector<double> compute(Stage& stage, const pipetrain_launch& launch);

  ChainOptions options_;
  std::vector<double> weights_;  // by virtual stage
  std::deque<Stage> stages_;
  PipelineOwner pipeline_;
  double loss_ = 0;
  std::string customs_, launched_;
  std::atomic<int> tensors_alive_{0};
  std::atomic<bool> may_return_{false};
};

}  // namespace pipetrain::test
