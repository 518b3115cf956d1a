// The part of a transformer that one rank of one stage computes: explicit forward and backward of its chunks.
// All work is enqueued on the Ops' stream; memory is the caller's. Not thread-safe.
//
// Shapes as in ops.hpp: T = batch x sequence tokens of a microbatch, Tr this rank's rows of them, H hidden
// size. The sequence length may differ from step to step. If ranks share sequences, it is the length of the
// rank's part of each (ContextPart).
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "core/buffer.hpp"
#include "model/blocks/expert_parallel.hpp"
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
  // Called before work is enqueued that adds to gradients of this block (its index in ParameterLayout::blocks); may be null.
  std::function<void(std::size_t block)> opens;
  // Called when all work that adds to them has been enqueued; nothing more adds to them until they are opened
  // again. May be null.
  std::function<void(std::size_t block)> closes;
  GradientAdded added;  // may be null
};

class StageModel {
 public:
  virtual ~StageModel() = default;

  virtual const ParameterLayout& parameters() const = 0;
  virtual ActivationBytes activation_bytes(int chunk) const = 0;
  virtual std::size_t workspace_bytes() const = 0;  // the most that any action needs, including those at the step's end
  // Returns the bytes of the weights in 8 bits, in addition to those of parameters(); see bind().
  virtual std::size_t fp8_weight_bytes() const = 0;
  // Bytes of the gradients that later slices of a microbatch add for the keys and values of earlier ones; see
  // bind(). A chunk runs the backward of one microbatch at a time.
  virtual std::size_t key_gradient_bytes() const = 0;
  // The shape of what chunks pass on, for the sequence that is set: [Tr, H], or with routed experts a StageEdge's.
  virtual Shape hidden_shape() const = 0;

  // Binds the weights of parameters(), in the activations' type and zero wherever no parameter is, and the
  // memory of its gradients. The store outlives the model's actions. Must be called before the first of them.
  // If positions are rotary or ranks share sequences, also allocates tables on the stream's device and waits
  // until they are filled; otherwise it waits for nothing on the stream. Also allocates the memory of weights
  // in 8 bits, which each step makes from the store's weights, once from frozen ones, and of the gradients between slices.
  virtual void bind(ParameterStore& weights, GradientPlaces grads) = 0;
  // Makes later actions read the weights of this store, which has the same layout. Weights in 8 bits are made anew at their
  // next use if it is another store.
  virtual void read_weights(ParameterStore& weights) = 0;
  // Says that the store has other weights than earlier actions read, the frozen ones too. Steps change trained ones without it.
  virtual void weights_loaded() = 0;
  // Sets memory of at least workspace_bytes() for the model and its Ops; all actions share it. Must be called
  // before the first action.
  virtual void bind_workspace(void* data, std::size_t bytes) = 0;
  // Sets Ops and memory of workspace_bytes() of their own, on the same stream, for forwards whose enqueueing
  // alternates with another action's (ForwardArgs::second). Only one of the two enqueues at a time.
  virtual void bind_second(Ops& ops, void* data, std::size_t bytes) = 0;
  // Makes a slot of this chunk, without memory.
  virtual std::unique_ptr<ActivationSlot> make_slot(int chunk) const = 0;
  // Sets memory of at least activation_bytes(chunk).saved for the slot's next forward(), valid until its
  // backward() or weight_grad().
  virtual void set_saved(int chunk, ActivationSlot& slot, void* saved) const = 0;
  // Returns the bytes of that memory that the slot's last forward() used, from its beginning.
  virtual std::size_t saved_bytes(int chunk, ActivationSlot& slot) const = 0;
  // Notes that the slot's saved bytes have been copied to other such memory, which replaces the memory of set_saved(). Call it
  // between forward() and backward() or input_grad().
  virtual void move_saved(int chunk, ActivationSlot& slot, void* saved) const = 0;
  // Sets memory of at least activation_bytes(chunk).pending for the slot's next input_grad(), valid until its weight_grad().
  virtual void set_pending(int chunk, ActivationSlot& slot, void* pending) const = 0;

  // Sets the callbacks of gradients.
  virtual void listen(GradientListener listener) = 0;

  // Sets the tokens of each sample in the actions that follow, from 1 to the spec's length, which is the
  // default. Waits for nothing. If ranks share sequences, it must be an even number, and the work enqueued
  // before the previous call must have run.
  virtual void set_sequence(std::int64_t sequence) = 0;
  // Starts gradients anew: each chunk's next B or W overwrites those of matrices, and this call zeroes the others.
  virtual void begin_step() = 0;
  virtual void forward(int chunk, const ForwardArgs& args, ActivationSlot& slot) = 0;
  // B: the whole backward. The slices of a microbatch come from the last to the first. Gradients add up over
  // microbatches, which must come in the same order in B, I and W.
  virtual void backward(int chunk, const BackwardArgs& args, ActivationSlot& slot) = 0;
  // I, then W: the same kernels in two parts, with the same bits.
  virtual void input_grad(int chunk, const BackwardArgs& args, ActivationSlot& slot) = 0;
  virtual void weight_grad(int chunk, ActivationSlot& slot) = 0;
};

struct StageModelSpec {
  ModelConfig config;
  std::vector<std::vector<Block>> chunks;  // the ranges of blocks that this stage holds
  MicrobatchShape shape;                   // the largest shape of a microbatch
  Numerics numerics = {};
  int slices = 1;  // of each microbatch; shape is then that of the largest slice
  // True if the store holds weights for one use at a time, so that nothing made from them is kept.
  bool gathers_weights = false;
  ContextParallel context = {};     // the part of sequences that `shape` describes
  bool isolates_documents = false;  // true if every forward has documents
  ExpertParallel experts = {};
};

// The Ops (and the group) must outlive the model. To learn sizes only, without a device, pass measuring Ops and
// do not bind. Throws Error(unavailable) for a precision that is not built.
std::unique_ptr<StageModel> make_stage_model(const StageModelSpec& spec, const TensorParallel& tp, Ops& ops);

}  // namespace pipetrain
