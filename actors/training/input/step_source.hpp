// Feeds training steps from one source and the steps of evaluations from another.
#pragma once

#include <memory>
#include <utility>

#include "actors/engine/stage_compute.hpp"

namespace pipetrain {

class StepSource : public InputSource {
 public:
  StepSource(std::shared_ptr<InputSource> training, std::shared_ptr<InputSource> evaluation)
      : training_(std::move(training)), evaluation_(std::move(evaluation)) {}

  void fill(schedules::InputKind kind, const StepInfo& step, int microbatch, Slot& slot) override {
    source_of(step).fill(kind, step, microbatch, slot);
  }
  void look_ahead(const StepInfo& filled) override { source_of(filled).look_ahead(filled); }

 private:
  InputSource& source_of(const StepInfo& step) {
    return step.kind == schedules::StepKind::evaluation ? *evaluation_ : *training_;
  }

  std::shared_ptr<InputSource> training_, evaluation_;
};

}  // namespace pipetrain
