// Runs of models that are small enough to compare hundreds of layouts bit by bit.
#pragma once

#include <string>

#include "golden_run.hpp"

namespace pipetrain::test {

struct TinyRun {
  Family family = Family::llama;
  bool tied = false;
  int layers = 2;
  int sequence = 8;
  int microbatches = 2;    // of one replica
  double dropout = 0;      // everywhere
  bool isolated = false;   // isolated documents of one token and more in each sample
  bool from_file = false;  // the plan goes through its text form
  int precision = 0;       // 0: fp32, 1: bf16, 2: fp16 with a loss scale
  std::string golden;      // uses this golden model with its own data, and only the layout of this struct
  bool elastic = false;    // processes that are left take over from lost ones
  bool shared = false;     // processes share the memory of copies, as those of GPUs do
  int spares = 0;          // processes without ranks, the last ones; of elastic runs over real processes
  bool post_validation = false;
  double clip = 0;  // of the gradients' norm; 0: that of every job
  Layout layout;
};

std::string to_string(const TinyRun& tiny);

TrainJob job_of(const TinyRun& tiny);

// Runs two steps. A step in which nothing completes for long fails with the stages that wait.
RunRecord run(const TinyRun& tiny);

// Returns the run that must give the same bits: one stage, 1f1b, nothing recomputed, one thread.
TinyRun reference_of(TinyRun tiny);

}  // namespace pipetrain::test
