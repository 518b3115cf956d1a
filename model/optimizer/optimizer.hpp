// What an optimizer is: the states that it keeps of every weight, and one step over them. Each is a file of its own (adamw.cpp)
// and a line of the table in optimizer.cpp.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "model/optimizer/optimizer_settings.hpp"
#include "model/parameters/parameters.hpp"
#include "ops/ops.hpp"

namespace pipetrain {

// The name of the weights among the states of a rank; the others are Optimizer::states().
inline constexpr const char* weights_state = "weights";

// What changes from step to step.
struct OptimizerStep {
  float lr = 0;
  std::int64_t step = 1;  // counts applied steps, from 1
  float grad_scale = 1;   // the clipping factor, applied to the gradient first
};

// One stored tensor, or a part of it.
struct OptimizerTensors {
  Tensor weight, grad;         // f32
  std::vector<Tensor> states;  // f32, in the order of Optimizer::states()
  Tensor rounded;              // the weight's copy in the operations' type, to be written; without memory: none
  bool decays = true;          // whether weight decay applies
};

// Immutable, hence thread-safe.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  // Their names, which checkpoints' files have too; each has one f32 number a weight and starts at zero.
  virtual const std::vector<std::string>& states() const = 0;
  // Enqueued on the Ops' stream. Every element by itself, so that parts of a tensor may be stepped anywhere.
  virtual void step(Ops& ops, const OptimizerTensors& tensors, const OptimizerStep& step) const = 0;
  // Writes to `rounded` what step() would write there, to the bit, and nothing else.
  virtual void preview(Ops& ops, const OptimizerTensors& tensors, const OptimizerStep& step) const = 0;
};

// Throws Error(input) for an unknown name, with those there are.
std::unique_ptr<const Optimizer> make_optimizer(const OptimizerSettings& settings);

// A run of elements of one stored tensor, and where it begins in each arena, in elements.
struct OptimizerPart {
  std::size_t elements = 0;
  std::size_t weight = 0, grad = 0, state = 0, rounded = 0;
  bool decays = true;
};
// All trainable parameters of the layout, each stored tensor once, in arenas that are flat as it describes. A tied weight that
// this stage stores once takes its gradient from the embedding's accumulator. Pure.
std::vector<OptimizerPart> whole_parts(const ParameterLayout& layout);

struct OptimizerArenas {
  Tensor weights;              // f32
  Tensor grads;                // f32
  std::vector<Tensor> states;  // f32, all of one length
  Tensor rounded;              // without memory: none
};
void optimizer_step(const std::vector<OptimizerPart>& parts, Ops& ops, const OptimizerArenas& arenas,
                    const Optimizer& optimizer, const OptimizerStep& step);
// The same step's preview(), in the arena of rounded weights.
void optimizer_preview(const std::vector<OptimizerPart>& parts, Ops& ops, const OptimizerArenas& arenas,
                       const Optimizer& optimizer, const OptimizerStep& step);

}  // namespace pipetrain
