// One tensor-parallel rank of one generating stage: its weights, its caches, and its forward.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "actors/generation/sequence_runs.hpp"
#include "actors/ranks/rank_lanes.hpp"
#include "actors/ranks/ranked_compute.hpp"
#include "core/process_group.hpp"
#include "model/stage_inference.hpp"
#include "model/weights/weights.hpp"
#include "schedules/plan/validate.hpp"

namespace pipetrain {

struct GenerationRankSetup : MeshRank {
  std::shared_ptr<Group> tensor;  // the ranks of the stage; null: only one
  InferenceSpec model;
  schedules::ChunkNeeds needs;
  std::shared_ptr<const WeightSource> weights;
  std::vector<std::shared_ptr<const WeightSource>> adapter_weights = {};  // as the model's adapters
};

// Bytes on one device.
struct GenerationMemory {
  std::size_t parameters = 0, cache = 0, queues = 0, workspace = 0;
  std::size_t total() const { return parameters + cache + queues + workspace; }
};

// Returns what a rank will allocate, without allocating it. The share of a GPU's libraries is an estimate.
GenerationMemory estimate_memory(const GenerationRankSetup& setup);

class GenerationRank : public ComputeRank {
 public:
  // Allocates all memory and loads the weights. Throws Error(out_of_memory), and what the weights throw.
  explicit GenerationRank(GenerationRankSetup setup);
  // Waits for work that is still running after a failure, because memory must outlive it.
  ~GenerationRank() override { wait_until_idle(); }

  // The lane holds ids for the first stage, else hidden states; it is empty for targets.
  Lane make_lane(schedules::InputKind kind, int chunk) override;
  // The step's content is the runs of its sequences.
  void begin_step(const StepInfo& step) override;
  void run(const Launch& launch) override;
  void add_result(const schedules::Action&, StageResult&) const override {}
  void fail(std::exception_ptr cause) override;

  // Returns the number of vocabulary rows that this rank holds; 0 without the head. Thread-safe.
  std::size_t logits_count() const;
  // Between steps: copies this rank's logits for the last position of the sequence's latest run. Thread-safe.
  void read_logits(int sequence, float* out) const;

 private:
  Stream& stream() { return streams().compute(); }
  bool on_gpu() const { return setup_.device->id().kind == DeviceKind::cuda; }
  TensorParallel tensor_parallel() const { return {setup_.tensor.get(), false}; }
  Buffer allocate(std::size_t bytes, const std::string& what);
  // Returns the loaded weights of the layout, in memory that the buffer owns.
  Tensor load(const ParameterLayout& layout, const WeightSource& source, const std::string& what, Buffer& memory);
  void allocate_logits();
  RankLanes::Output compute(int sequence, const SequenceRun& run, const Launch& launch);

  GenerationRankSetup setup_;
  std::unique_ptr<Ops> ops_;
  std::unique_ptr<StageInference> model_;
  std::vector<Buffer> adapters_;
  Buffer weights_, caches_, workspace_, logits_memory_, logits_host_memory_;
  Tensor logits_, logits_host_;  // [sequences, logits_columns()]
  RankLanes lanes_;
  SequenceRuns runs_;  // of the step
};

}  // namespace pipetrain
