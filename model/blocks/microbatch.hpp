// The inputs and outputs of one microbatch, or of one slice of its sequence, in the forward and the backward of a chunk. Shapes
// as in stage_model.hpp.
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

// What a chunk keeps of one microbatch between its actions; the caller gives it memory and reuses it for later microbatches.
class ActivationSlot {
 public:
  virtual ~ActivationSlot() = default;
};

// What a microbatch's dropout is drawn from, beside the tensor: the same numbers, the same draws, whatever the layout.
struct DropoutDraws {
  std::uint64_t seed = 0;
  std::int64_t step = 0;
  std::int64_t first_sample = 0;  // of the microbatch, counted in the step's global batch
};

// A slice of the sequence of a microbatch, where microbatches pass in slices.
struct SliceArgs {
  std::int64_t first = 0;                     // the position of its first token in the sample
  bool last = false;                          // of the microbatch's
  std::vector<ActivationSlot*> earlier = {};  // of the chunk: those of the slices before it, in order, which stay until its B
};

struct ForwardArgs {
  Tensor input;     // [T] i32 ids for the first chunk of the model, else [Tr, H]; must stay valid until B or I
  Tensor targets;   // last chunk only: [T] i32; must stay valid until B or I
  Tensor output;    // [Tr, H]; unused by the last chunk
  Tensor loss_sum;  // last chunk only: [1] f64, written
  // [T] i32: for each token, the place in its sample of the first token of its document, which attention and positions begin
  // with; must stay valid until B or W. Without memory: a sample is one document.
  Tensor documents = {};
  std::optional<DropoutDraws> draws = {};  // absent: nothing is dropped, as when a model is evaluated
  // Last chunk only, of a head for classification: [batch, own classes] f64, written: the logits where each sequence's class is
  // said. Without memory: not wanted.
  Tensor scores = {};
  std::optional<SliceArgs> slice = {};  // where the spec has slices
  bool second = false;                  // of two actions whose calls alternate, that of bind_second()
  // Last chunk only: that of BackwardArgs, where a backward follows. The head may then compute its logits' gradient in the
  // forward, where it reads them anyway; the bits are the same.
  std::optional<float> loss_scale = {};
  // Of several documents a sequence where T has a part of it, of a slice or of a rank: [T] i32, of each token which one of
  // the part would be its document's first, below 0 for one outside; must stay valid as long as documents.
  Tensor origins = {};
};

struct BackwardArgs {
  Tensor output_grad;    // [Tr, H]; unused by the last chunk; must stay valid until B or W
  Tensor input_grad;     // [Tr, H], written; unused by the first chunk
  float loss_scale = 1;  // last chunk only: the run's loss scale / target tokens of the whole global batch
};

}  // namespace pipetrain
