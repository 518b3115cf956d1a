// A TrainJob is what a Trainer runs: settings whose model, data and weights make_train_job() has opened.
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

namespace pipetrain {

class Ops;
class RunRecorder;
class WeightSource;
struct RunProcesses;

// Where the state of a model comes from: see model/weights/weights.hpp.
struct InitialState {
  std::shared_ptr<const WeightSource> weights;
  // The optimizer's states by name; those that are not here start at zero.
  std::map<std::string, std::shared_ptr<const WeightSource>> states;
  std::int64_t applied_steps = 0;            // optimizer steps behind them
  std::optional<LossScaleState> loss_scale;  // not given: as a new run begins
};

// What a rank computes with, given what it otherwise would: for measurements. Called by all ranks' workers at once.
using WrapOps = std::function<std::unique_ptr<Ops>(std::unique_ptr<Ops>, const MeshCoordinate&)>;

struct TrainJob : JobSettings {
  ModelConfig config;
  InitialState initial;
  std::shared_ptr<const Dataset> dataset;     // its sequence length is the job's
  std::shared_ptr<const Dataset> evaluation;  // of the same sequence length; null: nothing is evaluated
  // All that asks for the run's plan shares this one, because to search for it takes long: see build_plan(). Null: a job that
  // was not made by make_train_job(); whoever lays it out builds the plan.
  std::shared_ptr<const schedules::Plan> plan;
  LearningRate learning_rate;

  std::vector<std::filesystem::path> companions;  // to be saved beside the model: companion_files.hpp
  bool saves = false;                             // checkpoints: their memory is allocated before the first step

  std::filesystem::path checkpoint;  // that it goes on from; empty: none
  std::int64_t steps_done = 0;       // by the run that this one goes on from
  double first_loss = 0;             // of its first step
  std::optional<double> last_loss;   // of its last one, where it is known

  WrapOps wrap_ops;                       // may be null
  std::shared_ptr<RunRecorder> recorder;  // see PipelineOptions; may be null

  std::shared_ptr<RunProcesses> processes;  // see run_processes.hpp; null: this process runs all ranks
};

// How many equal ones each sequence is cut into: see ContextPart.
inline std::int64_t sequence_chunks(const TrainJob& job) {
  return job.layout.cp > 1 ? 2 * job.layout.cp * job.layout.slices : 1;
}

}  // namespace pipetrain
