// A TrainJob describes the work of a Trainer: settings whose model, data and weights make_train_job() has opened.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/training/job/run_settings.hpp"
#include "core/mesh.hpp"
#include "data/samples/dataset.hpp"
#include "model/config/config.hpp"
#include "model/optimizer/variance_warm_up.hpp"

namespace pipetrain {

class KeptStates;
class MultimodalParts;
class Ops;
class RunRecorder;
class WeightSource;
struct RunProcesses;

// The source of a model's state: see model/weights/weights.hpp.
struct InitialState {
  std::shared_ptr<const WeightSource> weights;
  // The optimizer's states by name; those that are missing start at zero.
  std::map<std::string, std::shared_ptr<const WeightSource>> states;
  std::shared_ptr<const WeightSource> reference = {};  // of a preference loss; null: none
  std::int64_t applied_steps = 0;                      // optimizer steps that led to it
  std::optional<LossScaleState> loss_scale;            // no value: as a new run begins
  std::optional<VarianceState> variance;               // likewise, of gradients in 1 bit
  std::vector<std::vector<float>> expert_biases = {};  // by routed layer and expert; empty: no expert has one, or all are 0

  // Ends the use of the sources of what ranks have loaded, for example of their memory.
  void forget_sources() {
    weights.reset();
    states.clear();
  }
};

// Replaces the operations of a rank, given those that it would use; for measurements. All ranks' workers call it at once.
using WrapOps = std::function<std::unique_ptr<Ops>(std::unique_ptr<Ops>, const MeshCoordinate&)>;

struct TrainJob : JobSettings {
  ModelConfig config;
  std::string model_name;             // as the settings give it; an adapter's files name it as their base
  std::optional<std::uint64_t> base;  // with adapters: base_fingerprint() of that model
  InitialState initial;
  std::shared_ptr<const Dataset> dataset;     // its sequence length is the job's
  std::shared_ptr<const Dataset> evaluation;  // of the same sequence length; null: nothing is evaluated
  // The plan of the run, which everything shares because a search for it takes long: see build_plan(). Null for a job
  // that make_train_job() did not make; its layout builds the plan.
  std::shared_ptr<const schedules::Plan> plan;
  LearningRate learning_rate;

  std::vector<std::filesystem::path> companions;      // copied into saved models: companion_files.hpp
  std::shared_ptr<const MultimodalParts> multimodal;  // to which saved models are added; may be null
  bool saves = false;                                 // it saves checkpoints, whose memory is allocated before the first step
  bool keeps_copies = false;                          // copies each rank's state after each step, so that a run can go back
  bool shares_copies = false;                         // see shares_copies()

  // Receives the states of this layout, for the next one, which may begin from them: see kept_states.hpp. Null: none follows in
  // this process, or it begins from files.
  std::shared_ptr<KeptStates> kept;
  std::filesystem::path checkpoint;  // the one that it continues from; empty: none
  std::int64_t steps_done = 0;       // steps of the run that this one continues
  double first_loss = 0;             // of that run's first step
  int relayouts = 0;                 // changes of the run's layout in this process before this job
  std::optional<double> last_loss;   // of its last step, if known

  WrapOps wrap_ops;                       // may be null
  std::shared_ptr<RunRecorder> recorder;  // see PipelineOptions; may be null

  std::shared_ptr<RunProcesses> processes;  // see run_processes.hpp; null: this process runs all ranks
};

// True when ranks that have the same weights divide their states.
inline bool divides_states(const TrainJob& job) { return job.zero.divides_states() && weight_copies(job.mesh_shape()) > 1; }

// True when copies of states are in memory that the processes of a host share, so that a killed process leaves its copies to
// the others and none has to be passed on. Copies of GPUs' states are: to pass them on would take longer than a step.
inline bool shares_copies(const TrainJob& job) { return job.shares_copies || job.devices.kind == DeviceKind::cuda; }

// Returns the number of equal chunks that each sequence is cut into: see ContextPart.
inline std::int64_t sequence_chunks(const TrainJob& job) {
  return job.layout.cp > 1 ? 2 * job.layout.cp * job.layout.slices : 1;
}

}  // namespace pipetrain
