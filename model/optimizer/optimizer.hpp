// An optimizer: the states that it keeps for every weight, and the rule by which it updates them. Each
// optimizer is a row of the table in optimizer.cpp and a rule in ops/update.hpp.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/optimizer/optimizer_settings.hpp"
#include "model/optimizer/tensor_optimizer.hpp"
#include "model/parameters/parameters.hpp"
#include "ops/ops.hpp"

namespace pipetrain {

// The name of the weights among the states of a rank; the others are Optimizer::states().
inline constexpr const char* weights_state = "weights";

// The smallest unit on which an optimizer can work.
enum class Granularity {
  element,  // any element independently, so that parts of a tensor may be stepped anywhere
  block,    // blocks of 256 elements of a rank's slice, whose moments share a scale (ops/eight_bit.hpp)
  matrix,   // whole tensors: neither replicas, nor tensor-parallel ranks, nor offloaded blocks may cut them
};

// A row of the table: the properties that distinguish one optimizer from another.
struct OptimizerKind {
  OptimizerSettings defaults;  // its name, and its default settings
  Granularity granularity = Granularity::element;
  // The names of the states, which are also names in checkpoint files. They start at zero. Each has one number a weight, in f32
  // in checkpoints, unless `tensors` says otherwise.
  std::vector<std::string> states;
  // The rule of elements and blocks; null where every tensor has a rule of its own.
  UpdateRule (*rule)(const OptimizerSettings& settings, const OptimizerStep& step) = nullptr;
  std::vector<std::string> settings;    // the names of the run's settings that it uses, besides the weight decay
  const TensorKind* tensors = nullptr;  // of an optimizer of whole tensors
  bool (*keeps_states)(const OptimizerSettings& settings) = nullptr;  // null: it always does
};

// Immutable, hence thread-safe.
class Optimizer {
 public:
  Optimizer(const OptimizerKind& kind, const OptimizerSettings& settings);

  const std::string& name() const { return kind_.defaults.name; }
  Granularity granularity() const { return kind_.granularity; }
  const std::vector<std::string>& states() const { return kind_.states; }
  // decays: whether weight decay applies.
  UpdateRule rule(const OptimizerStep& step, bool decays) const;
  // Returns the rule of AdamW for parts whose gradient is their new first moment; step.frozen_after is positive.
  UpdateRule frozen_rule(const OptimizerStep& step, bool decays) const;

  // For Granularity::matrix: see TensorKind.
  std::vector<Shape> state_shapes(const SteppedTensor& tensor) const { return kind_.tensors->states(settings_, tensor); }
  std::optional<TensorRule> tensor_rule(const OptimizerStep& step, const SteppedTensor& tensor) const {
    return kind_.tensors->rule(settings_, step, tensor);
  }
  // Returns the bytes that all states of a tensor take on a device that holds all of it.
  double state_bytes(const SteppedTensor& tensor) const;

 private:
  OptimizerKind kind_;
  OptimizerSettings settings_;
};

// Tensors of fewer elements have moments in fp32 under an optimizer of blocks, as in bitsandbytes.
inline constexpr std::int64_t least_eight_bit_elements = 4096;

std::vector<std::string> optimizer_names();
// Returns the default settings of the optimizer of this name. Throws as make_optimizer.
OptimizerSettings default_settings(const std::string& name);
// Returns true if the optimizer of this name uses the setting, such as "beta1". Throws as make_optimizer.
bool optimizer_uses(const std::string& name, const std::string& setting);
// Throws Error(input) for an unknown name, with a list of the known ones.
std::unique_ptr<const Optimizer> make_optimizer(const OptimizerSettings& settings);

// A range of elements of one stored tensor, and its first element in each arena.
struct OptimizerPart {
  std::size_t elements = 0;
  std::size_t weight = 0, grad = 0, state = 0, rounded = 0;
  bool decays = true;
  bool averaged = false;  // in steps that freeze second moments, the gradients are first moments
};
// All trained parameters of the layout, each stored tensor once, in arenas that are flat as it describes. A
// tied weight that this stage stores once takes its gradient from the embedding's accumulator. Pure.
std::vector<OptimizerPart> whole_parts(const ParameterLayout& layout);

struct OptimizerArenas {
  Tensor weights;              // f32
  Tensor grads;                // f32
  std::vector<Tensor> states;  // f32, all of one length
  Tensor rounded;              // without memory: none
};
void optimizer_step(const std::vector<OptimizerPart>& parts, Ops& ops, const OptimizerArenas& arenas,
                    const Optimizer& optimizer, const OptimizerStep& step);
// Writes the same step's preview() to the arena of rounded weights.
void optimizer_preview(const std::vector<OptimizerPart>& parts, Ops& ops, const OptimizerArenas& arenas,
                       const Optimizer& optimizer, const OptimizerStep& step);

}  // namespace pipetrain
