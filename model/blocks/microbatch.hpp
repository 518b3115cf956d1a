// The inputs and outputs of one microbatch, or of one slice of its sequence, in the forward and the backward of
// a chunk. Shapes as in stage_model.hpp.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/tensor.hpp"

namespace pipetrain {

struct MicrobatchShape {
  std::int64_t batch = 1;
  std::int64_t sequence = 1;
  std::int64_t tokens() const { return batch * sequence; }
};

// The values that a chunk keeps of one microbatch between its actions. The caller gives it memory and reuses it
// for later microbatches.
class ActivationSlot {
 public:
  virtual ~ActivationSlot() = default;
};

// The numbers from which a microbatch's dropout is drawn, together with the tensor's name. Equal numbers give
// equal draws in every layout.
struct DropoutDraws {
  std::uint64_t seed = 0;
  std::int64_t step = 0;
  std::int64_t first_sample = 0;  // the microbatch's first sample, counted in the step's global batch
};

// A slice of the sequence of a microbatch, if microbatches pass in slices.
struct SliceArgs {
  std::int64_t first = 0;                     // the position of its first token in the sample
  bool last = false;                          // true for the microbatch's last slice
  std::vector<ActivationSlot*> earlier = {};  // the chunk's slots of the slices before it, in order; they stay until its B
};

struct ForwardArgs {
  // [T] i32 ids for the first chunk of the model, else as StageModel::hidden_shape(); must stay valid until B or I
  Tensor input;
  // Last chunk only: [T] i32; must stay valid until B or I. With a further prediction [3 T]: the targets, the ids of the next
  // tokens, and the targets of these.
  Tensor targets;
  Tensor output;  // as StageModel::hidden_shape(); unused by the last chunk
  // Last chunk only, written: [1] f64; for a preference loss, [batch, 2] f64: SequenceSums of this rank's part of each
  // sequence; with a further prediction [2] f64, its sum second.
  Tensor loss_sum;
  // [T] i32: for each token, the position in its sample of the first token of its document, from which
  // attention and positions count; must stay valid until B or W. Without memory: a sample is one document.
  Tensor documents = {};
  std::optional<DropoutDraws> draws = {};  // absent: nothing is dropped, as in an evaluation
  // Last chunk only, for a classification head: [batch, own classes] f64, output: the logits at the token that
  // gives each sequence's class. Without memory: not wanted.
  Tensor scores = {};
  std::optional<SliceArgs> slice = {};  // set if the spec has slices
  bool base_alone = false;              // leaves out the adapters; no backward may follow
  bool second = false;  // true for the action of a pair with alternating calls that uses the memory of bind_second()
  // Last chunk only: the loss scale of BackwardArgs if a backward follows. The head may then compute its
  // logits' gradient in the forward, which reads them anyway; the bits are the same.
  std::optional<float> loss_scale = {};
  // [T] i32, set if a slice or a rank has a part of a sequence that holds several documents. For each token it
  // holds the index within the part of the first token of the token's document, below 0 if that lies outside;
  // must stay valid as long as documents.
  Tensor origins = {};
  // Last chunk only, for a preference loss, if a backward follows: [batch, preference_facts] f64, SequenceFacts; must stay
  // valid until B or I.
  std::optional<Tensor> preference_facts = {};
  // [routed blocks of the chunk, E] f32: see RouteArgs::bias. Without memory: none.
  Tensor expert_biases = {};
  // [Tr, H], the final norm's output. The chunk sets it for a further prediction: the block `mtp` writes it, and the head
  // reads it.
  Tensor final_hidden = {};
};

struct BackwardArgs {
  Tensor output_grad;    // as StageModel::hidden_shape(); unused by the last chunk; must stay valid until B or W
  Tensor input_grad;     // as StageModel::hidden_shape(), written; unused by the first chunk
  float loss_scale = 1;  // last chunk only: the run's loss scale / target tokens of the whole global batch
  // For models with routed experts: the run's loss scale / sequences of the whole global batch; isolated documents are
  // sequences.
  float sequence_scale = 0;
  // [routed blocks of the chunk, E + 3] f64 +=: see RouteBackwardArgs::statistics. Without memory: not wanted.
  Tensor router_statistics = {};
  Tensor expert_biases = {};  // those of the forward
  // [Tr, H], the gradient of final_hidden through the model's own prediction. The chunk sets it for a further prediction: the
  // head writes it, and the block `mtp` reads it.
  Tensor final_hidden_grad = {};
};

}  // namespace pipetrain
