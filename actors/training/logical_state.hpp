// The model's full tensors, of any state that ranks keep: gathered from the ranks of the first replica by asking their stages.
#pragma once

#include <cstddef>
#include <deque>
#include <future>
#include <string>
#include <vector>

#include "actors/engine/pipeline.hpp"
#include "actors/training/parallel_layout.hpp"
#include "model/parameters.hpp"

namespace pipetrain {

// Only between steps. Not thread-safe.
class LogicalState {
 public:
  LogicalState(Pipeline& pipeline, const ParallelLayout& layout, const ModelConfig& config);
  // Waits for what is still being read.
  ~LogicalState();
  LogicalState(const LogicalState&) = delete;
  LogicalState& operator=(const LogicalState&) = delete;

  // full = logical_tensors(config)[index] of this state, f32. The tensors behind it are asked for already, up to some memory,
  // so that whoever copies all in order need not wait for each. Throws RunFailed.
  void copy(const std::string& state, std::size_t index, float* full);

 private:
  struct Slice {
    StageId stage;
    int tp_rank = 0;         // of that part of the stage
    std::size_t number = 0;  // of the rank's parameters
    Parameter parameter;
  };
  struct Reading {
    std::vector<float> part;
    std::future<void> done;
  };
  // A tensor that was asked for.
  struct Asked {
    std::string state;
    std::size_t index = 0;
    std::size_t bytes = 0;
    std::vector<Reading> slices;
  };

  void ask(const std::string& state, std::size_t index);
  void forget();

  Pipeline& pipeline_;
  std::vector<std::vector<Slice>> slices_;  // as logical_tensors()
  std::deque<Asked> asked_;                 // in order
  std::size_t asked_bytes_ = 0;
};

}  // namespace pipetrain
