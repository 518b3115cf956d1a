// A block's explicit forward and backward: the interface between every kind of block and the stage model.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "core/buffer.hpp"
#include "model/blocks/expert_parallel.hpp"
#include "model/blocks/microbatch.hpp"
#include "model/blocks/relocation.hpp"
#include "model/blocks/weight_gradients.hpp"
#include "model/config/recompute.hpp"
#include "model/context/context_parallel.hpp"
#include "model/context/sequence_part.hpp"
#include "model/parameters/gradient_places.hpp"
#include "model/parameters/parameters.hpp"
#include "model/rotation/rotary_tables.hpp"
#include "ops/ops.hpp"

namespace pipetrain {

// One StoredTensor in this stage's arenas: the values the operations read, and where its gradient is summed up.
struct BoundTensor {
  Tensor weight;
  Tensor grad;         // without a shape if the tensor is frozen: see has_place()
  Fp8Matrix fp8 = {};  // the weight of a matrix that is multiplied in 8 bits; else without shapes

  bool in_fp8() const { return fp8.rows.shape.rank() > 0; }
  bool is_trained() const { return has_place(grad); }
  // Returns true if the gradient of the weight reads matrices in 8 bits. That of an adapter never does.
  bool is_trained_in_fp8() const { return in_fp8() && is_trained(); }
};

// A block's tensors; each layer of the block looks up its own by role.
class BoundTensors {
 public:
  // All three follow the order of parameters.tensors. fp8 has an entry without shapes for each tensor that is
  // not multiplied in 8 bits, and is empty if none is.
  BoundTensors(const BlockParameters& parameters, const std::vector<Tensor>& weights, const std::vector<Tensor>& grads,
               const std::vector<Fp8Matrix>& fp8)
      : parameters_(parameters), weights_(weights), grads_(grads), fp8_(fp8) {}
  // The block must have a tensor of this role.
  BoundTensor at(TensorRole role) const;

 private:
  const BlockParameters& parameters_;
  const std::vector<Tensor>&weights_, &grads_;
  const std::vector<Fp8Matrix>& fp8_;
};

// The roles of a matrix and of the bias that is added to its output, if it has one.
struct MatrixRoles {
  TensorRole weight;
  std::optional<TensorRole> bias = {};
};
inline std::optional<TensorRole> bias_if(bool has_bias, TensorRole bias) {
  return has_bias ? std::optional(bias) : std::nullopt;
}

struct SliceContext;

// The part of a microbatch's routing that concerns other layers or the whole step.
struct RouterContext {
  // StageEdge::counts() i32: how often each sequence has chosen each expert. In a forward the block adds its own layer's
  // choices to those of earlier layers; in a backward it reads those of all layers.
  Tensor counts = {};
  CountedSequences sequences = {};
  float sequence_scale = 0;  // see BackwardArgs
  Tensor statistics = {};    // see RouteBackwardArgs; of this block
  Tensor bias = {};          // [E] f32: see RouteArgs; of this block
};

// The settings and resources that all actions of one stage share.
struct BlockContext {
  Ops& ops;
  Arena& workspace;  // blocks give back what they take from it
  TensorParallel tp;
  MicrobatchShape shape;
  DType dtype = DType::f32;  // of activations
  RotaryTables rotary;       // of the sequence's positions; without shapes where positions are learned
  Recompute recompute = Recompute::none;
  std::optional<DropoutDraws> draws = {};  // absent: nothing is dropped
  std::optional<Tensor> documents = {};    // [T] i32, as in ForwardArgs; absent: a sample is one document
  ContextParallel cp = {};
  ExpertParallel ep = {};
  // [T] i32. Set if ranks share sequences, or if a slice holds several documents. For each token it holds the index that
  // position 0 of the token's sequence (of its document, if there are several) has among the tokens of part(); below 0 if
  // position 0 lies outside of the part. Operations that count positions take it in place of documents.
  std::optional<Tensor> origins = {};
  const RouterContext* router = nullptr;  // null: nothing is counted, as in generation
  bool base_alone = false;                // ForwardArgs::base_alone
  const SliceContext* slice = nullptr;    // set if shape is a slice's; null if it is a sample's
  bool isolates_documents = false;        // documents are absent while memory is measured

  // Returns the tensor that operations read to count positions.
  const std::optional<Tensor>& position_origins() const { return origins ? origins : documents; }
  // The tokens of each sequence that are among the T tokens.
  SequencePart part() const;
  std::int64_t tokens() const { return shape.tokens(); }
  std::int64_t tokens_of_all_parts() const { return tokens() * cp.part.size; }
  std::int64_t shard_rows() const { return tp.shard_rows(tokens()); }
  // Adds those of the other ranks that share the sequences to `counts`, i32.
  void sum_over_parts(const Tensor& counts) const;
  // Does the same for `losses`, f64, in rank order.
  void sum_losses_over_parts(const Tensor& losses) const;
  // Returns true if each rank holds a shard of a tensor's rows, so that matrices must gather their input.
  bool gathers() const { return tp.sequence_parallel && tp.size() > 1; }
  // Return the rows of a matrix of all tokens that this rank holds, and the number of the first one.
  Tensor own_rows(const Tensor& all) const { return all.row_range(first_own_row(), first_own_row() + shard_rows()); }
  std::int64_t first_own_row() const { return gathers() ? tp.shard_begin(tokens()) : 0; }
  // Returns the context of operations that involve no other rank.
  BlockContext alone() const;
};

// The arguments of a forward of one sequence's next positions, which keeps nothing but keys and values.
struct CachedForwardArgs {
  Tensor input;            // [T] i32 ids of the embedding, else [T, H]
  Tensor output;           // [T, H]; the head's is [1, V]: the logits of the last position, V in whole vectors (StoredTensor)
  std::int64_t first = 0;  // the first of the positions
  Tensor cache = {};       // for an attention block: see CachedAttentionArgs
};

class BlockCompute {
 public:
  // The values of one microbatch that its backward reads; reused for later microbatches.
  struct Saved {
    virtual ~Saved() = default;
    virtual void relocate(const Relocation& moved) = 0;
  };

  virtual ~BlockCompute() = default;
  BlockCompute(const BlockCompute&) = delete;
  BlockCompute& operator=(const BlockCompute&) = delete;

  virtual std::unique_ptr<Saved> make_saved() const = 0;
  virtual void bind(const BoundTensors& tensors) = 0;

  // args holds the block's own input and output. Values that the backward reads are allocated in `memory`.
  virtual void forward(const BlockContext& context, const ForwardArgs& args, Arena& memory, Saved& saved) const = 0;
  // args.input_grad may be the memory of the forward's input, which is then overwritten.
  virtual void backward(const BlockContext& context, const BackwardArgs& args, WeightGradients& gradients,
                        Saved& saved) const = 0;

  // Runs the forward alone, in the workspace. context.shape is {1, T}; context.rotary has the rows of these positions.
  virtual void cached_forward(const BlockContext& context, const CachedForwardArgs& args) const;

 protected:
  BlockCompute() = default;
};

// A slice of a microbatch's sequence, and the values that this block keeps of the earlier slices.
struct SliceContext {
  std::int64_t first = 0;                                // the position of its first token in the sample
  std::vector<const BlockCompute::Saved*> earlier = {};  // the values of the slices before it, in order
  // [batch R, 2 Hkv D] f32, for an attention block. The backward of each slice adds its gradients of the keys
  // and values of the whole sequence, which has at most R positions.
  Tensor key_gradients = {};
};

// Returns the memory to which an operation adds a vector's gradient while it computes another one: the gradient
// arena's, or, if the vector is frozen, workspace memory that nobody reads.
Tensor sums_of(const BlockContext& context, const BoundTensor& vector);
struct PlainProduct {
  MatmulKind kind;
  Tensor in, w, out;
};
// Multiplies on this rank alone.
void multiply_alone(Ops& ops, const PlainProduct& product);
// Returns this rank's share of the rows of a vocabulary or of a head.
VocabularyRows own_rows(std::int64_t rows, const TensorParallel& tp);

}  // namespace pipetrain
