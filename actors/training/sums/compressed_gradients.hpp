// Sums the gradients of a parameter group over the replicas in few bits (comm/compressed), and keeps the errors that this
// makes: each replica those of its own gradients, and, where all replicas keep all sums, the owner of a block those of its sum.
// They are states of a run: checkpoints hold them.
//
// Matrices are compressed, other than tables of positions and those that tensor-parallel ranks each hold in full, whose sums
// are not complete yet; everything else is summed in fp32. Blocks begin with each tensor's slice, so that sums do not depend on
// the layout of stages, nor on how they are divided into calls.
//
// Where the replicas are on several hosts, those of a host first sum a tensor in fp32, each a share of its blocks. The sums of
// a share are then compressed between the hosts, and return to all replicas of a host in fp32.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "actors/engine/stage_compute.hpp"
#include "actors/training/places/state_places.hpp"
#include "actors/training/sums/gradient_reduction.hpp"
#include "comm/compressed/block_code.hpp"
#include "comm/compressed/compressed_sum.hpp"
#include "model/weights/weights.hpp"
#include "ops/ops.hpp"

namespace pipetrain {

// The groups of a compressed sum.
struct CompressionGroups {
  std::shared_ptr<Group> between;  // its members, which send each other few bits
  std::shared_ptr<Group> within;   // the ranks of a host that divide its work; null: each works alone
};

// The tensors of a rank that are compressed, and the places of their errors. Immutable, hence thread-safe.
class CompressedTensors {
 public:
  struct Setup {
    BlockCode code = BlockCode::none;
    int replicas = 1, replica = 0;        // that have the same weights
    int tensor_parallel = 1;              // ranks
    float beta1 = 0, beta2 = 0, eps = 0;  // of AdamW
    int hosts = 0;                        // see Compression
    CompressionGroups groups = {};        // where the replicas are on several hosts; else empty

    // The members of a compressed sum, and those that share its work on a host.
    int parties() const { return hosts > 0 ? hosts : replicas; }
    int sharers() const { return replicas / parties(); }
    int party() const { return replica / sharers(); }
    // True where the sums become first moments of AdamW.
    bool averages() const { return code == BlockCode::sign && replicas > 1; }
    // The code of gradients, which are summed until the sums are first moments.
    BlockCode early_code() const { return averages() ? BlockCode::int8 : code; }
  };
  // The places must outlive it.
  CompressedTensors(const StatePlaces& places, const Setup& setup);

  struct Compressed {
    std::size_t parameter = 0;             // in the layout
    Region grads;                          // in the gradient arena
    RowSplit shares;                       // of its elements, over the replicas of a host: whole blocks
    Region share;                          // the elements of this replica
    RowSplit owners;                       // of the share's blocks
    RowSplit early_owners;                 // the same elements as blocks of the early code
    Region own = {};                       // the elements whose sums this replica owns
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
  RowSplit early_owners(const Compressed& tensor) const;

  const StatePlaces& places_;
  Setup setup_;
  std::vector<Compressed> tensors_;
  std::size_t errors_ = 0;
};

// Those of AdamW, in arenas with the offsets of the weights.
struct AdamMoments {
  float *first = nullptr, *second = nullptr;
};
// Returns the array of a state of the optimizer, by its name.
using StateArrays = std::function<float*(const std::string& state)>;

class CompressedGradients {
 public:
  // The references must outlive it. Throws Error(out_of_memory).
  CompressedGradients(const StatePlaces& places, const CompressedTensors::Setup& setup, Device& device, Ops& ops,
                      std::shared_ptr<Group> replicas, const std::string& rank);

  // Returns a sum that compresses those tensors, which a call has whole, and leaves the rest to `others`. arena: of the
  // gradients.
  SumOverReplicas over(const Tensor& arena, SumOverReplicas others);
  // BlockCode::sign alone, before a step. Until second moments are frozen, sums are of gradients, in int8, whose errors are
  // then dropped. From then on, with the first moments of AdamW, in an arena with the offsets of the weights, the sum of a
  // tensor is its new first moment, beta1 x moment + (1 - beta1) x the sum of gradients, with the step's loss scale as a
  // factor; each replica contributes its share of both (Tang et al. 2021, "1-bit Adam"). Signs and errors are of these numbers
  // divided by the roots of the second moments: so a sign moves each weight of a block equally far, as Adam does, where first
  // moments themselves would move those with small gradients much too far. Second moments then change as ops/settle_moments.hpp
  // says. applied: the optimizer's steps so far. Only enqueues.
  void begin_step(const StepInfo& step, const StateArrays& states, std::int64_t applied);
  // Makes all errors zero.
  void clear(Stream& stream);

  // Errors of one tensor, under a name by which no other replica has them.
  struct Errors {
    std::string state;
    HeldPart held;
    float* values;
  };
  std::vector<Errors> errors() const;
  // Loads this replica's errors of this name; those of other replicas are not loaded. Waits for the stream. Throws what the
  // source throws.
  void load(const std::string& state, const WeightSource& source, Stream& stream);

 private:
  void sum(Stream& stream, const Tensor& arena, const Tensor& part, const SumOverReplicas& others);
  void settle_variances(bool are_new) const;
  void sum_tensor(Stream& stream, const CompressedTensors::Compressed& tensor, const Tensor& arena);
  CompressedPart part_of(const CompressedTensors::Compressed& tensor, const Tensor& arena);
  void clear_errors(Stream& stream);

  CompressedTensors tensors_;
  Ops& ops_;
  AdamMoments moments_;            // without: sums are of gradients
  std::int64_t frozen_after_ = 0;  // see StepInfo
  float loss_scale_ = 1;
  std::shared_ptr<Group> within_;
  Buffer memory_;
  CompressedSum sum_;                           // of gradients
  std::unique_ptr<CompressedSum> moments_sum_;  // of first moments; null: sums are always of gradients
};

// True for the name of a state that holds errors of compressed gradients.
bool is_compression_error(const std::string& state);

}  // namespace pipetrain
