// Trains a model through a pipeline of stage actors: builds devices, groups, computes and the pipeline for a job, then runs it
// step by step.
#pragma once

#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/engine/pipeline.hpp"
#include "actors/training/job/device_memory.hpp"
#include "actors/training/job/train_job.hpp"
#include "actors/training/run/evaluation.hpp"
#include "model/weights/saved_type.hpp"

namespace pipetrain {

// What one device ran in a step, in order.
struct DeviceTrace {
  MeshCoordinate rank;
  std::vector<DeviceAction> actions;
};

struct StepReport {
  std::int64_t step = 0;             // counts from 1
  double loss = 0;                   // mean over the target tokens of the global batch; NaN where none counts
  double grad_norm = 0;              // global L2 norm before clipping; not finite in a step that was skipped for it
  double learning_rate = 0;          // of the optimizer's step; in a skipped step, what it would have been
  std::int64_t tokens = 0;           // target tokens of the global batch that count
  std::optional<double> loss_scale;  // of this step; nothing where the loss is not scaled
  bool skipped = false;              // the optimizer left weights and its states as they were: an overflow, or no loss
  std::int64_t applied_steps = 0;    // of the steps so far, this one included, those that were not skipped
  bool redone = false;               // a stage began the coming step from weights that the verdict did not confirm
  double seconds = 0;
  double bubble = 0;  // share of the stages' time between the step's first action and its last in which they ran none
  // Of each stage, where steps overlap; bubble is then of them too, see StepBubbles. Else empty.
  std::vector<std::optional<double>> stage_bubble;
  std::optional<double> input_wait;  // seconds that a first stage may have waited for data; nothing where others read it
  std::vector<StageTrace> trace;     // of each stage's first rank
  std::vector<DeviceTrace> devices;  // in the mesh's order of ranks

  bool has_loss() const { return tokens > 0; }
};

// Steps and saving from one thread; waiting(), finish_step(), leave_step() and abort() from any.
//
// In a run over several processes (TrainJob::processes) each makes a Trainer of the same job at about the same time. Process 0
// runs and saves as if it were alone; the others call follow() and nothing else but waiting() and abort(), which are for the
// whole run in any of them.
class Trainer {
 public:
  // Throws Error: input when the model cannot be laid out so; out_of_memory before anything is allocated when the estimate is
  // above what the devices have; unavailable. What ends one process here ends all with the same cause.
  explicit Trainer(TrainJob job);
  // In process 0 this ends the run: the others' follow() returns.
  ~Trainer();

  // In every process but 0: runs its ranks until process 0 ends the run. Throws RunFailed when anything failed, here or
  // elsewhere.
  void follow();

  // Runs the next step. One in which no label counts has no loss and is skipped. Throws RunFailed; nothing more can be run
  // then. `another_follows`: the next call that runs anything, if there is one, is step() again, of which the job's
  // post-validation makes use.
  StepReport step(bool another_follows = false);
  // The loss on the job's evaluation data with the weights as they are, which stay so. Nothing where the job has none, or when
  // `stop` became true: it is asked now and then. Throws RunFailed.
  std::optional<Evaluation> evaluate(const std::function<bool()>& stop = [] { return false; });
  std::int64_t steps_done() const;
  double first_loss() const;                // of the first step that had one, also when an earlier run made it
  std::optional<double> last_loss() const;  // of the last such step, likewise; nothing where it is not known
  std::int64_t steps_per_epoch() const;

  std::vector<DeviceMemory> memory() const;
  // What carries data between processes, as Transport::description() says it; empty where one process runs all.
  std::string carried_by() const;
  // The current weights as a Hugging Face folder, whole or not at all, with the job's companions.
  void save_model(const std::filesystem::path& folder, const ModelFolderOptions& options = {}) const;
  // FOLDER/step-NNNNNNNN, to go on from: see checkpoint.hpp. Returns once a snapshot of the state is under way; the next
  // steps may run while it is written. The future, which must go before this, is ready once the checkpoint is whole and
  // durable, or throws why it is not: see start_checkpoint(). One at a time. `check_folder`: see CheckpointContents.
  std::future<void> start_checkpoint(const std::filesystem::path& folder, std::function<void()> check_folder = nullptr);

  std::vector<std::string> waiting();
  void finish_step(std::chrono::milliseconds patience);  // see Pipeline
  // step() and evaluate() throw StepLeft from now on, see Pipeline; start_checkpoint() then saves the state of the last step
  // that was done. Not where the optimizer's states or the weights are offloaded: false, and nothing has changed.
  bool leave_step();
  void abort(std::exception_ptr cause);

 private:
  class Run;
  std::unique_ptr<Run> run_;
};

}  // namespace pipetrain
