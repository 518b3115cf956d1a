// Sums the gradients of a parameter group over the replicas in few bits (comm/compressed), and keeps the errors that this
// makes: each replica those of its own gradients, and, where all replicas keep all sums, the owner of a block those of its sum.
// They are states of a run: checkpoints hold them.
//
// Matrices are compressed, other than tables of positions and those that tensor-parallel ranks each hold in full, whose sums
// are not complete yet; everything else is summed in fp32. Blocks begin with each tensor's slice, so that sums do not depend on
// the layout of stages, nor on how they are divided into calls.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "actors/engine/stage_compute.hpp"
#include "actors/training/places/state_places.hpp"
#include "actors/training/sums/gradient_reduction.hpp"
#include "comm/compressed/block_code.hpp"
#include "comm/compressed/compressed_sum.hpp"
#include "model/weights/weights.hpp"

namespace pipetrain {

// The tensors of a rank that are compressed, and the places of their errors. Immutable, hence thread-safe.
class CompressedTensors {
 public:
  struct Setup {
    BlockCode code = BlockCode::none;
    int replicas = 1, replica = 0;  // that have the same weights
    int tensor_parallel = 1;        // ranks
    float beta1 = 0;                // of AdamW
  };
  // The places must outlive it.
  CompressedTensors(const StatePlaces& places, const Setup& setup);

  struct Compressed {
    std::size_t parameter = 0;             // in the layout
    Region grads;                          // in the gradient arena
    RowSplit owners;                       // of its blocks
    Region own;                            // the elements whose sums this replica owns
    std::size_t error = 0, sum_error = 0;  // first elements of its errors
  };
  const std::vector<Compressed>& all() const { return tensors_; }  // in the order of the gradient arena
  const Setup& setup() const { return setup_; }
  bool compresses_sums() const { return !places_.is_sharded(); }
  const ParameterLayout& layout() const { return places_.layout(); }

  // Returns the ranges of the weight arena that the tensors have, ascending.
  std::vector<Region> weights() const;
  std::size_t errors() const { return errors_; }  // elements, of both kinds
  std::size_t bytes() const;                      // of the errors and of the buffers

 private:
  void add(std::size_t parameter);

  const StatePlaces& places_;
  Setup setup_;
  std::vector<Compressed> tensors_;
  std::size_t errors_ = 0;
};

class CompressedGradients {
 public:
  // The references must outlive it. Throws Error(out_of_memory).
  CompressedGradients(const StatePlaces& places, const CompressedTensors::Setup& setup, Device& device,
                      std::shared_ptr<Group> group, const std::string& rank);

  // Returns a sum that compresses those tensors, which a call has whole, and leaves the rest to `others`. arena: of the
  // gradients.
  SumOverReplicas over(const Tensor& arena, SumOverReplicas others);
  // BlockCode::sign alone, before a step. Until second moments are frozen, sums are of gradients, in fp32. From then
  // on, with the first moments of AdamW, in an arena with the offsets of the weights, the sum of a tensor is its new first
  // moment, beta1 x moment + (1 - beta1) x the sum of gradients, with the step's loss scale as a factor; each replica
  // contributes its share of both (Tang et al. 2021, "1-bit Adam").
  void begin_step(const StepInfo& step, const float* first_moments);
  // Makes all errors zero.
  void clear(Stream& stream);

  // Errors of one tensor, under a name by which no other replica has them.
  struct Errors {
    std::string state;
    HeldPart held;
    float* values;
  };
  std::vector<Errors> errors() const;
  // Loads this replica's errors of this name; those of other replicas are not loaded. Waits for the device. Throws what the
  // source throws.
  void load(const std::string& state, const WeightSource& source, Device& device);

 private:
  void sum(Stream& stream, const Tensor& arena, const Tensor& part, const SumOverReplicas& others);
  CompressedPart part_of(const CompressedTensors::Compressed& tensor, const Tensor& arena);

  CompressedTensors tensors_;
  const float* first_moments_ = nullptr;  // null: sums are of gradients
  float loss_scale_ = 1;
  Buffer memory_;
  CompressedSum sum_;
};

// True for the name of a state that holds errors of compressed gradients.
bool is_compression_error(const std::string& state);

}  // namespace pipetrain
