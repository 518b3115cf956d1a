// Computes the next token's logits of several sequences through a pipeline of stage actors: builds devices, groups, computes
// and the pipeline for a job, then runs it step by step. A step is a forward of each sequence through the stages, one
// microbatch a sequence, so that sequences fill the pipeline. Over several processes the runs of a step go to all with its
// beginning, and its logits come to process 0.
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
// planned: the processes that the job would run in. Throws Error(input) when the model cannot be laid out so.
GenerationEstimate estimate_generation(const GenerationJob& job, const std::optional<PlannedProcesses>& planned = {});

// All methods from one thread, but for waiting(), finish_step() and abort(). step() and read_logits() in process 0 of several
// only.
class Generator {
 public:
  // Over several processes it returns when all have built their parts. Throws Error: input when the model cannot be laid out
  // so, or another process has another model; out_of_memory before anything is allocated when the estimate is above what the
  // devices have; unavailable, peer_lost.
  explicit Generator(const GenerationJob& job);
  ~Generator();

  int sequences() const;
  std::int64_t positions() const;

  // Computes the runs, one of at most longest_run positions for each sequence's place. Throws RunFailed; nothing more can be
  // run then.
  void step(const SequenceRuns& runs);
  // After a step: the logits of the last position of this sequence's run, one for each id of the vocabulary.
  void read_logits(int sequence, std::vector<float>& logits) const;

  // In every process but 0: returns when process 0 ends the run, which its destructor does. Throws RunFailed.
  void follow();
  // Ends the run with this cause in every process, between steps. In process 0.
  void abort(std::exception_ptr cause);
  std::vector<std::string> waiting();
  void finish_step(std::chrono::milliseconds patience);  // see Pipeline

 private:
  class Run;
  std::unique_ptr<Run> run_;
};

}  // namespace pipetrain
