// Counts the steps of a run and keeps its losses. It remembers the latest steps, so that a run that lost its last ones
// goes back and repeats them.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "core/wire.hpp"
#include "model/optimizer/loss_scale.hpp"
#include "model/optimizer/variance_warm_up.hpp"

namespace pipetrain {

struct StepReport;
struct TrainJob;

class RunProgress {
 public:
  // The states with which the coming step begins.
  struct Coming {
    std::optional<LossScaleState> loss_scale;       // no value where the scale is constant
    std::optional<VarianceState> variance;          // of gradients in 1 bit
    std::vector<std::vector<float>> expert_biases;  // see ExpertBiases
  };
  struct Counts {
    std::int64_t steps = 0;          // steps done
    std::int64_t applied_steps = 0;  // those of them that the optimizer applied
    double first_loss = 0;
    bool has_first_loss = false;  // of this run or of an earlier one that it continues; the first steps may have no loss
    std::optional<double> last_loss;
    Coming coming;
    double learning_rate = 0;  // of the last step
  };

  explicit RunProgress(const TrainJob& job);
  // Continues from the record() of another process. Throws Error(peer_lost) for bytes that are none.
  explicit RunProgress(const Bytes& record);

  const Counts& now() const { return latest_.back(); }
  // Returns the present counts, with which another process can continue.
  Bytes record() const;
  // `report` is of the next step, `coming` of the step after it.
  void add(const StepReport& report, Coming coming);
  // Goes back to the counts after this step, and returns those of later steps. Throws Error(internal) for a step that is
  // not among the latest.
  std::vector<Counts> go_back(std::int64_t step);

 private:
  std::deque<Counts> latest_;  // of consecutive steps
};

}  // namespace pipetrain
