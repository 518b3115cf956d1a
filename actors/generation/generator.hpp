// Computes the next token's logits of several sequences through a pipeline of stage actors: builds devices, groups,
// computes and the pipeline for a job, then runs it step by step. A step is one forward of each sequence through the
// stages. Each sequence is a microbatch, so that they fill the pipeline. Over several processes, the beginning of a
// step carries its runs to all of them, and process 0 gets the logits.
#pragma once

#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/generation/generation_job.hpp"
#include "actors/generation/generation_rank.hpp"
#include "actors/generation/sequence_runs.hpp"
#include "actors/ranks/run_processes.hpp"
#include "core/error.hpp"
#include "core/mesh.hpp"

namespace pipetrain {

// The needs of a job, found without allocating it.
struct GenerationEstimate {
  struct Device {
    MeshCoordinate rank;
    GenerationMemory memory;
  };
  std::vector<Device> devices;             // in the mesh's order of ranks
  std::vector<std::vector<Block>> blocks;  // by stage
  std::optional<Error> shortage;           // thrown by a Generator if the machine has too little memory
};
// planned: the processes that the job would run in. Throws Error(input) when the model cannot be laid out in this way.
GenerationEstimate estimate_generation(const GenerationJob& job, const std::optional<PlannedProcesses>& planned = {});

// Call all methods from one thread, except waiting(), finish_step() and abort(). Of several processes only process 0
// may call step() and read_logits().
class Generator {
 public:
  // Over several processes, the constructor returns when all have built their parts. Throws Error: input when the model
  // cannot be laid out in this way, or another process has another model; out_of_memory, before anything is allocated,
  // when the estimate exceeds the memory of the devices; unavailable; peer_lost.
  explicit Generator(const GenerationJob& job);
  ~Generator();

  int sequences() const;
  std::int64_t positions() const;
  // Returns the most positions of a text that rotates by longrope's short factors. A text that grows beyond it must be computed
  // again from its first position; 0: none must.
  std::int64_t short_positions() const;

  // Computes the runs, at most one for each place, each of at most longest_run positions. After RunFailed no further
  // step is possible.
  void step(const SequenceRuns& runs);
  // After a step: the logits of the last position of this sequence's run, one for each id of the vocabulary.
  void read_logits(int sequence, std::vector<float>& logits) const;

  // For every process but 0: returns when the destructor in process 0 ends the run. Throws RunFailed.
  void follow();
  // For process 0, between steps: ends the run with this cause in every process.
  void abort(std::exception_ptr cause);
  std::vector<std::string> waiting();
  void finish_step(std::chrono::milliseconds patience);  // see Pipeline

 private:
  class Run;
  std::unique_ptr<Run> run_;
};

}  // namespace pipetrain
