// The model's full tensors, of any state that ranks keep: gathered from the stages whose ranks hold their parts; from
// the first replica's where replicas do not divide them.
#pragma once

#include <cstddef>
#include <deque>
#include <future>
#include <string>
#include <vector>

#include "actors/engine/pipeline.hpp"
#include "actors/training/rank/parallel_layout.hpp"
#include "model/parameters/parameters.hpp"

namespace pipetrain {

// Only between steps. Not thread-safe.
class LogicalState {
 public:
  LogicalState(Pipeline& pipeline, const ParallelLayout& layout, const TrainJob& job);
  // Waits for reads that are still running.
  ~LogicalState();
  LogicalState(const LogicalState&) = delete;
  LogicalState& operator=(const LogicalState&) = delete;

  // full = logical_tensors(config)[index] of this state, f32. The next tensors are requested already, up to a memory
  // limit, so that copying all in order does not wait for each. Throws RunFailed.
  void copy(const std::string& state, std::size_t index, float* full);

 private:
  // The part of a slice that one rank holds.
  struct Piece {
    StageId stage;
    int rank = 0;  // in the part of the stage
    std::size_t begin = 0, end = 0;
  };
  struct Slice {
    std::size_t number = 0;  // index among the rank's parameters
    Parameter parameter;
    std::vector<Piece> pieces;
  };
  struct Reading {
    std::vector<float> slice;
    std::vector<std::future<void>> done;  // by piece
  };
  // A tensor that was requested.
  struct Asked {
    std::string state;
    std::size_t index = 0;
    std::size_t bytes = 0;
    std::vector<Reading> slices;
  };

  // Returns the pieces of each parameter of a rank; dp and cp of the rank are 0.
  static std::vector<std::vector<Piece>> pieces_of(const ParallelLayout& layout, const TrainJob& job,
                                                   const ParameterLayout& own, const MeshCoordinate& rank);
  void ask(const std::string& state, std::size_t index);
  void forget();

  Pipeline& pipeline_;
  std::vector<std::vector<Slice>> slices_;  // as in logical_tensors()
  std::deque<Asked> asked_;                 // in order
  std::size_t asked_bytes_ = 0;
};

}  // namespace pipetrain
