// A block's explicit forward and backward: what every kind of block offers to the stage model, and what it gets from it.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "core/buffer.hpp"
#include "model/blocks/microbatch.hpp"
#include "model/blocks/relocation.hpp"
#include "model/blocks/rotary_tables.hpp"
#include "model/blocks/weight_gradients.hpp"
#include "model/config/recompute.hpp"
#include "model/context/context_parallel.hpp"
#include "model/context/sequence_part.hpp"
#include "model/parameters/gradient_places.hpp"
#include "model/parameters/parameters.hpp"
#include "ops/ops.hpp"

namespace pipetrain {

// One StoredTensor in this stage's arenas: the values the operations read, and where its gradient is summed up.
struct BoundTensor {
  Tensor weight;
  Tensor grad;         // without a place where the tensor is frozen: see has_place()
  Fp8Matrix fp8 = {};  // the weight, of a matrix that is multiplied in 8 bits; else without shapes

  bool in_fp8() const { return fp8.rows.shape.rank() > 0; }
  bool is_trained() const { return has_place(grad); }
};

// A block's tensors: each of the block's layers takes those it has, by role.
class BoundTensors {
 public:
  // All in the order of parameters.tensors; fp8: one without shapes for what is not multiplied in 8 bits, or empty if nothing
  // is.
  BoundTensors(const BlockParameters& parameters, const std::vector<Tensor>& weights, const std::vector<Tensor>& grads,
               const std::vector<Fp8Matrix>& fp8)
      : parameters_(parameters), weights_(weights), grads_(grads), fp8_(fp8) {}
  // The block must have it.
  BoundTensor at(TensorRole role) const;

 private:
  const BlockParameters& parameters_;
  const std::vector<Tensor>&weights_, &grads_;
  const std::vector<Fp8Matrix>& fp8_;
};

// A matrix, and the bias added to its output, if any.
struct MatrixRoles {
  TensorRole weight;
  std::optional<TensorRole> bias = {};
};
inline std::optional<TensorRole> bias_if(bool has_bias, TensorRole bias) {
  return has_bias ? std::optional(bias) : std::nullopt;
}

struct SliceContext;

// What the actions of one stage share.
struct BlockContext {
  Ops& ops;
  Arena& workspace;  // blocks give back what they take
  TensorParallel tp;
  MicrobatchShape shape;
  DType dtype = DType::f32;  // of activations
  RotaryTables rotary;       // of the sequence's positions; without shapes where positions are learned
  Recompute recompute = Recompute::none;
  std::optional<DropoutDraws> draws = {};  // absent: nothing is dropped
  std::optional<Tensor> documents = {};    // [T] i32, as in ForwardArgs; absent: a sample is one document
  ContextParallel cp = {};
  // Where ranks share sequences, and of slices of several documents: [T] i32, of each token which one of the part() of its
  // sequence would be its position 0, below 0 for one outside of the part: of the slice, or of its document if there are
  // several. That is what operations that count positions take for documents.
  std::optional<Tensor> origins = {};
  const SliceContext* slice = nullptr;  // where shape is a slice's; null: a sample's

  // For operations that count positions.
  const std::optional<Tensor>& position_origins() const { return origins ? origins : documents; }
  // Of each sequence, the tokens that T has.
  SequencePart part() const;
  std::int64_t tokens() const { return shape.tokens(); }
  std::int64_t shard_rows() const { return tp.shard_rows(tokens()); }
  // Whether a tensor's shard is less than the whole of it, so that matrices must gather their input.
  bool gathers() const { return tp.sequence_parallel && tp.size() > 1; }
};

// The next positions of one sequence, of which nothing is kept but keys and values.
struct CachedForwardArgs {
  Tensor input;            // [T] i32 ids of the embedding, else [T, H]
  Tensor output;           // [T, H]; of the head [1, V]: the logits of the last position, V of whole vectors (StoredTensor)
  std::int64_t first = 0;  // of the positions
  Tensor cache = {};       // of an attention block: see CachedAttentionArgs
};

class BlockCompute {
 public:
  // What one microbatch's backward needs; reused for later microbatches.
  struct Saved {
    virtual ~Saved() = default;
    virtual void relocate(const Relocation& moved) = 0;
  };

  virtual ~BlockCompute() = default;
  BlockCompute(const BlockCompute&) = delete;
  BlockCompute& operator=(const BlockCompute&) = delete;

  virtual std::unique_ptr<Saved> make_saved() const = 0;
  virtual void bind(const BoundTensors& tensors) = 0;

  // args are the block's own: its input, its output. What is kept for the backward is allocated in `memory`.
  virtual void forward(const BlockContext& context, const ForwardArgs& args, Arena& memory, Saved& saved) const = 0;
  // args.input_grad may be the very memory of the forward's input, which is then lost.
  virtual void backward(const BlockContext& context, const BackwardArgs& args, WeightGradients& gradients,
                        Saved& saved) const = 0;

  // The forward alone, in the workspace. context.shape is {1, T}, context.rotary has the rows of these positions.
  virtual void cached_forward(const BlockContext& context, const CachedForwardArgs& args) const;

 protected:
  BlockCompute() = default;
};

// A slice of a microbatch's sequence, and what this block keeps of those before it.
struct SliceContext {
  std::int64_t first = 0;                                // the position of its first token in the sample
  std::vector<const BlockCompute::Saved*> earlier = {};  // of the slices before it, in order
  // Of an attention block, [batch R, 2 Hkv D] f32: what slices have summed up in their backward for the keys and values of all
  // of a sequence, of which there are at most R.
  Tensor key_gradients = {};
};

// The place to which an operation adds a vector's gradient that it sums while it computes another one: the gradient's, or, of a
// frozen vector, memory of the workspace that nobody reads.
Tensor sums_of(const BlockContext& context, const BoundTensor& vector);
// Of a vocabulary's rows, or of a head's, those that this rank has.
VocabularyRows own_rows(std::int64_t rows, const TensorParallel& tp);
// The block of these parameters on this rank. loss_chunks: see ChunkedHeadBlock; nothing: the head keeps its logits.
std::unique_ptr<BlockCompute> make_block(const ModelConfig& config, const BlockParameters& parameters, const TensorParallel& tp,
                                         std::optional<int> loss_chunks = {});

}  // namespace pipetrain
