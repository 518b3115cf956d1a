// The part of a transformer that one rank of one stage computes: explicit forward and backward of its chunks. Everything is
// enqueued on the Ops' stream; memory is the caller's. Not thread-safe.
//
// Shapes as in ops.hpp: T = batch x sequence tokens of a microbatch, Tr this rank's rows of them, H hidden size. The sequence
// may differ from step to step. Where ranks share sequences, it is the rank's part of each (ContextPart).
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "core/buffer.hpp"
#include "model/blocks/microbatch.hpp"
#include "model/blocks/weight_gradients.hpp"
#include "model/config/config.hpp"
#include "model/config/numerics.hpp"
#include "model/context/context_parallel.hpp"
#include "model/parameters/gradient_places.hpp"
#include "model/parameters/parameter_store.hpp"
#include "model/parameters/parameters.hpp"
#include "ops/ops.hpp"

namespace pipetrain {

// Bytes of device memory that one microbatch of a chunk needs, besides its input and output.
struct ActivationBytes {
  std::size_t saved = 0;      // from F until B or W
  std::size_t pending = 0;    // from I until W
  std::size_t workspace = 0;  // during one action, shared by all
};

struct GradientListener {
  // Something is about to be added to gradients of this block (its index in ParameterLayout::blocks); may be null.
  std::function<void(std::size_t block)> opens;
  // What has been enqueued so far has added to them, and nothing adds to them until they are opened again; may be null.
  std::function<void(std::size_t block)> closes;
  GradientAdded added;  // may be null
};

class StageModel {
 public:
  virtual ~StageModel() = default;

  virtual const ParameterLayout& parameters() const = 0;
  virtual ActivationBytes activation_bytes(int chunk) const = 0;
  virtual std::size_t workspace_bytes() const = 0;   // the most that any action needs, those of the step's end included
  virtual std::size_t fp8_weight_bytes() const = 0;  // of the weights in 8 bits, beside those of parameters(); see bind()
  // Of the gradients that later slices of a microbatch have for the keys and values of earlier ones; see bind(). One microbatch
  // at a time is in its backward in a chunk.
  virtual std::size_t key_gradient_bytes() const = 0;
  virtual Shape hidden_shape() const = 0;  // [Tr, H], of the sequence that is set

  // Weights of parameters(), in the activations' type and zero where no parameter is, and places for its gradients. The
  // store outlives the model's actions. Must be called before the first of them. Where positions are rotary, also takes the
  // memory of their table from the stream's device, and waits for it to be filled; so it does where ranks share
  // sequences; else waits for nothing that is on the stream. Takes the memory of weights in 8 bits too, which each step makes
  // from those that the store has in it, and of the gradients between slices.
  virtual void bind(ParameterStore& weights, GradientPlaces grads) = 0;
  // Memory of at least workspace_bytes(), for the model and its Ops; all actions share it. Must be called before the first
  // action.
  virtual void bind_workspace(void* data, std::size_t bytes) = 0;
  // Operations and memory of workspace_bytes() of their own, on the same stream, for forwards whose enqueueing alternates with
  // another action's (ForwardArgs::second): one of the two at a time enqueues.
  virtual void bind_second(Ops& ops, void* data, std::size_t bytes) = 0;
  // A slot of this chunk, without memory.
  virtual std::unique_ptr<ActivationSlot> make_slot(int chunk) const = 0;
  // Memory of at least activation_bytes(chunk).saved for the slot's next forward(), to be kept until its backward() or
  // weight_grad().
  virtual void set_saved(int chunk, ActivationSlot& slot, void* saved) const = 0;
  // Bytes of it that the slot's last forward() used, from its begin on.
  virtual std::size_t saved_bytes(int chunk, ActivationSlot& slot) const = 0;
  // Between forward() and backward() or input_grad(): these bytes have been copied to other such memory, which takes the place
  // of what set_saved() gave.
  virtual void move_saved(int chunk, ActivationSlot& slot, void* saved) const = 0;
  // Memory of at least activation_bytes(chunk).pending for the slot's next input_grad(), to be kept until its weight_grad().
  virtual void set_pending(int chunk, ActivationSlot& slot, void* pending) const = 0;

  // Sets the callbacks of gradients.
  virtual void listen(GradientListener listener) = 0;

  // The tokens of each sample in the actions that follow, from 1 to the spec's; before the first call it is the spec's. Waits
  // for nothing; where ranks share sequences, an even number, and what the stream still holds of the call before is done.
  virtual void set_sequence(std::int64_t sequence) = 0;
  // Gradients start anew: each chunk's next B or W overwrites those of matrices, and this zeroes the others.
  virtual void begin_step() = 0;
  virtual void forward(int chunk, const ForwardArgs& args, ActivationSlot& slot) = 0;
  // B: everything. The slices of a microbatch come from the last to the first. Gradients add up over microbatches, which must
  // come in one order in all of B, I and W.
  virtual void backward(int chunk, const BackwardArgs& args, ActivationSlot& slot) = 0;
  // I, then W: the same kernels in two parts, the same bits.
  virtual void input_grad(int chunk, const BackwardArgs& args, ActivationSlot& slot) = 0;
  virtual void weight_grad(int chunk, ActivationSlot& slot) = 0;
};

struct StageModelSpec {
  ModelConfig config;
  std::vector<std::vector<Block>> chunks;  // the runs of blocks that this stage holds
  MicrobatchShape shape;                   // the largest
  Numerics numerics = {};
  int slices = 1;                // of each microbatch; shape is then of the largest of them
  bool gathers_weights = false;  // the store has the weights for one use at a time: what is made of them is not kept
  ContextParallel context = {};  // whose part of sequences `shape` is of
};

// The Ops (and the group) must outlive the model. To learn sizes only, without a device, pass measuring Ops and do not bind.
// Throws Error(unavailable) for a precision that is not built.
std::unique_ptr<StageModel> make_stage_model(const StageModelSpec& spec, const TensorParallel& tp, Ops& ops);

}  // namespace pipetrain
