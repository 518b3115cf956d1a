// Loss scaling: the loss is multiplied by a scale before the backward, so that small gradients do not vanish in fp16
// (Micikevicius et al. 2018). The optimizer divides it out again.
#pragma once

#include <cstdint>

namespace pipetrain {

// The first value of a dynamic scale unless the settings give another.
inline constexpr double usual_dynamic_scale = 65536;

struct LossScaleSettings {
  bool dynamic = false;  // else the scale stays `initial`
  double initial = 1;
  std::int64_t window = 1000;   // steps without overflow after which the scale doubles
  std::int64_t hysteresis = 2;  // overflows, counted from the last doubling, from which on each halves it
  double minimum = 1;
  bool operator==(const LossScaleSettings&) const = default;
};

// The state that a resumed run needs.
struct LossScaleState {
  double scale = 1;
  std::int64_t good_steps = 0;  // without overflow, since the scale last changed or overflowed
  std::int64_t overflows = 0;   // since it last doubled
  bool operator==(const LossScaleState&) const = default;
};

// The scale from step to step, by the rule of Megatron-LM's dynamic gradient scaler. Not thread-safe.
class LossScale {
 public:
  explicit LossScale(const LossScaleSettings& settings) : LossScale(settings, {.scale = settings.initial}) {}
  LossScale(const LossScaleSettings& settings, const LossScaleState& state) : settings_(settings), state_(state) {}

  double value() const { return state_.scale; }
  bool is_dynamic() const { return settings_.dynamic; }
  const LossScaleState& state() const { return state_; }

  // Call it after a step whose gradients were all finite.
  void applied();
  // Call it after a step that was skipped because a gradient was not finite; only for a dynamic scale. Returns
  // false if the scale should fall but is already the smallest allowed.
  bool overflowed();

 private:
  LossScaleSettings settings_;
  LossScaleState state_;
};

}  // namespace pipetrain
