// Trains a model through a pipeline of stage actors: builds devices, groups, computes and the pipeline for a job, then runs it
// step by step.
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/engine/trace.hpp"
#include "actors/training/job/device_memory.hpp"
#include "actors/training/job/train_job.hpp"
#include "actors/training/run/evaluation.hpp"
#include "actors/training/run/routed_layer.hpp"
#include "actors/training/run/takeover.hpp"
#include "core/mesh.hpp"
#include "model/weights/saved_type.hpp"
#include "records/preference_metrics.hpp"

namespace pipetrain {

class RunFailed;

// The actions that one device ran in a step, in order.
struct DeviceTrace {
  MeshCoordinate rank;
  std::vector<DeviceAction> actions;
};

struct StepReport {
  std::int64_t step = 0;  // counts from 1
  double loss = 0;  // mean over the target tokens of the global batch, or over its rows of preferences; NaN where none counts
  double grad_norm = 0;              // global L2 norm before clipping; not finite in a step that was skipped for it
  double learning_rate = 0;          // of the optimizer's step; in a skipped step, the one that it would have used
  std::int64_t tokens = 0;           // target tokens of the global batch that count
  std::optional<double> loss_scale;  // of this step; no value where the loss is not scaled
  bool skipped = false;            // the optimizer changed neither weights nor its states: an overflow, or no label that counts
  std::int64_t applied_steps = 0;  // steps so far, including this one, that were not skipped
  std::int64_t frozen_after = 0;   // gradients in 1 bit: see StepInfo
  bool redone = false;             // a stage began the coming step from weights that the verdict did not confirm
  std::optional<double> mtp_loss;  // of a further prediction: its sum divided as the loss is, without its weight
  // For models with routed experts, in steps with a loss: means over the sequences of the global batch, without coefficients.
  std::optional<double> aux_loss, z_loss;
  std::vector<RoutedLayer> routed;              // the layers with routed experts, in order; empty in steps without a loss
  std::optional<PreferenceMetrics> preference;  // of a loss of preferences
  int membership = 1;  // that ran the step, counted from 1; each takeover begins another, and so does each new layout
  int relayouts = 0;   // changes of the run's layout before the step
  std::vector<Takeover> takeovers;  // since the last report; the step may have been repeated
  double seconds = 0;
  double bubble = 0;  // share of the stages' time between the step's first and last action in which they ran nothing
  // By stage where steps overlap, else empty; `bubble` is then their mean, see StepBubbles.
  std::vector<std::optional<double>> stage_bubble;
  // Seconds that a first stage may have waited for data; no value where another process reads it.
  std::optional<double> input_wait;
  std::vector<StageTrace> trace;     // of each stage's first rank
  std::vector<DeviceTrace> devices;  // in the mesh's order of ranks

  bool has_loss() const { return tokens > 0; }
};

// Call steps and saving from one thread; waiting(), finish_step(), leave_step() and abort() are thread-safe.
//
// In a run over several processes (TrainJob::processes) each makes a Trainer of the same job at about the same time.
// Process 0 runs and saves as if it were alone; the others call only follow(), waiting() and abort(). waiting() and
// abort() concern the whole run in every process.
class Trainer {
 public:
  // Throws Error: input when the model cannot be laid out in this way; out_of_memory, before anything is allocated,
  // when the estimate exceeds the memory of the devices; unavailable. A failure of one process here ends all of them
  // with the same cause.
  explicit Trainer(TrainJob job);
  // In process 0 this ends the run: follow() returns in the others.
  ~Trainer();

  // Runs this process's ranks until process 0 ends the run; every process but 0 calls it. Returns true when this process
  // has become process 0 of an elastic run, whose process 0 was lost: it then runs and saves from the step after
  // steps_done(), as any process 0. Throws RunFailed if anything failed, here or elsewhere.
  bool follow();

  // Returns the number of the present membership, counted from 1. It grows with each takeover, which step(), evaluate()
  // and save_model() make by themselves where the job is elastic.
  int membership() const;
  // Returns true when a checkpoint that was begun in that membership, and failed so, may be begun again: where nobody has
  // taken over since then, this process and those that are left do so first. Throws as step().
  bool recover(const RunFailed& failure, int membership);

  // Runs the next step. A step in which no label counts has no loss and is skipped. After RunFailed no further step is
  // possible before renew(). `another_follows`: the next call that runs anything, if any, is step() again; post-validation
  // needs to know. `learning_rate`: that of this step in place of the one that the job's schedule gives.
  StepReport step(bool another_follows = false, std::optional<double> learning_rate = std::nullopt);
  // After RunFailed of a job of one process that keeps copies: ends the membership that failed, makes a new one from the
  // newest copies of all ranks' states, and repeats the steps that had been done since, so that steps, losses and weights
  // are those after the last finished step. The job's fault does not happen again. Throws Error(internal) for other jobs,
  // and as the constructor and step() do.
  void renew();
  // Between steps of an elastic run: returns once every state after the last step is where the loss of one process loses
  // nothing, so that a takeover repeats no step. Not while a checkpoint is being written. Throws as step().
  void copy_states();
  // Waits until this process, which ends on purpose, is lost, and takes over its ranks. Returns the takeovers that the next
  // step will report. Throws as step().
  std::vector<Takeover> take_over_from(int process);
  // Between steps of process 0 of an elastic run: returns how many processes that have knocked at SuccessivePlanes::door() are
  // ready to join the run.
  int newcomers();
  // Lets them join: every process begins a membership with them from the copies that copy_states() has made, and ranks are
  // shared out among all. Returns and throws as take_over_from().
  std::vector<Takeover> admit();
  // Returns the loss on the job's evaluation data with the present weights, which do not change. No value where the job
  // has no such data, or when `stop`, which is asked now and then, became true. Throws RunFailed.
  std::optional<Evaluation> evaluate(const std::function<bool()>& stop = [] { return false; });
  std::int64_t steps_done() const;
  // Return the loss of the first and the last step that had one, also in an earlier run that this one continues. No value where
  // the last one is not known.
  double first_loss() const;
  std::optional<double> last_loss() const;
  std::int64_t steps_per_epoch() const;

  std::vector<DeviceMemory> memory() const;
  // Returns the transport between processes, as Transport::description() names it; empty where one process runs all ranks.
  std::string carried_by() const;
  // Writes the current weights as a Hugging Face folder with the job's companions; of a model with adapters, the adapters and
  // whatever else is trained, as PEFT does. The folder appears whole or not at all.
  void save_model(const std::filesystem::path& folder, const ModelFolderOptions& options = {});
  // Writes the checkpoint FOLDER/step-NNNNNNNN: see checkpoint.hpp. Returns once a snapshot of the state has begun; later steps
  // may run while it is written. The future, which must not outlive this object, is ready once the checkpoint is complete and
  // durable, or throws the failure: see start_checkpoint(). One at a time. `check_folder`: see CheckpointContents.
  std::future<void> start_checkpoint(const std::filesystem::path& folder, std::function<void()> check_folder = nullptr);

  // True where the job has kept states; keep_states() then adds those after the last step, with which the next layout of the
  // run begins in this process. No further step may follow, and no checkpoint may be being written. Throws RunFailed.
  bool keeps_states() const;
  void keep_states();

  std::vector<std::string> waiting();
  void finish_step(std::chrono::milliseconds patience);  // see Pipeline
  // Makes step() and evaluate() throw StepLeft from now on, see Pipeline; start_checkpoint() then saves the state after the
  // last finished step. Returns false, and changes nothing, where the optimizer's states or the weights are offloaded, and
  // during a takeover.
  bool leave_step();
  void abort(std::exception_ptr cause);

 private:
  class Run;
  std::unique_ptr<Run> run_;
};

}  // namespace pipetrain
