// A schedule as data: where each chunk of the model lives, and the order in which every stage acts.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "schedules/action.hpp"

namespace pipetrain::schedules {

struct StageChunk {
  int stage = 0;
  int chunk = 0;
  bool operator==(const StageChunk&) const = default;
};

// The model is cut into stages x chunks virtual stages, in the order of its layers. A placement says which (stage, chunk) runs
// each of them; every stage holds `chunks` of them, numbered in model order.
class Placement {
 public:
  // virtual stage v runs on stage v % stages: chunk v / stages.
  static Placement looping(int stages, int chunks);
  // Two chunks: down the stages and back up, so that the first stage also holds the last virtual stage.
  static Placement v_shape(int stages);

  int stages() const { return stages_; }
  int chunks() const { return chunks_; }
  int virtual_stages() const { return stages_ * chunks_; }
  StageChunk at(int virtual_stage) const { return of_virtual_[static_cast<std::size_t>(virtual_stage)]; }
  int virtual_stage(int stage, int chunk) const;
  bool is_first(StageChunk where) const { return virtual_stage(where.stage, where.chunk) == 0; }
  bool is_last(StageChunk where) const { return virtual_stage(where.stage, where.chunk) == virtual_stages() - 1; }
  bool operator==(const Placement&) const = default;

 private:
  Placement(int stages, int chunks, std::vector<StageChunk> of_virtual);

  int stages_;
  int chunks_;
  std::vector<StageChunk> of_virtual_;
};

struct Plan {
  std::string schedule;  // "1f1b"
  Placement placement = Placement::looping(1, 1);
  int microbatches = 0;
  std::vector<std::vector<Action>> stages;  // one ordered list per stage
};

}  // namespace pipetrain::schedules
