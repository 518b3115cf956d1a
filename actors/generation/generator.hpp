// Computes the next token's logits of several sequences through a pipeline of stage actors: builds devices, groups, computes
// and the pipeline for a job, then runs it step by step. A step is a forward of each sequence through the stages, one
// microbatch a sequence, so that sequences fill the pipeline.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "actors/generation/generation_job.hpp"
#include "actors/generation/generation_rank.hpp"
#include "actors/generation/sequence_runs.hpp"
#include "core/error.hpp"
#include "core/mesh.hpp"

namespace pipetrain {

// What a job would take, found without allocating it.
struct GenerationEstimate {
  struct Device {
    MeshCoordinate rank;
    GenerationMemory memory;
  };
  std::vector<Device> devices;             // in the mesh's order of ranks
  std::vector<std::vector<Block>> blocks;  // by stage
  std::optional<Error> shortage;           // what a Generator would throw where the machine has too little memory
};
// Throws Error(input) when the model cannot be laid out so.
GenerationEstimate estimate_generation(const GenerationJob& job);

// All methods from one thread.
class Generator {
 public:
  // Throws Error: input when the model cannot be laid out so; out_of_memory before anything is allocated when the estimate is
  // above what the devices have; unavailable.
  explicit Generator(const GenerationJob& job);
  ~Generator();

  int sequences() const;
  std::int64_t positions() const;

  // Computes the runs, one of at most longest_run positions for each sequence's place. Throws RunFailed; nothing more can be
  // run then.
  void step(SequenceRuns runs);
  // After a step: the logits of the last position of this sequence's run, one for each id of the vocabulary.
  void read_logits(int sequence, std::vector<float>& logits) const;

 private:
  class Run;
  std::unique_ptr<Run> run_;
};

}  // namespace pipetrain
