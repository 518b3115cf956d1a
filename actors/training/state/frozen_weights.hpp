// The weights of a rank's frozen parameters: only in the type that operations read, without gradients and optimizer states.
// Every replica keeps all of them on its device, even where replicas divide trained parameters (ZeRO) or offload their weights.
#pragma once

#include <cstddef>
#include <vector>

#include "actors/engine/stage_compute.hpp"
#include "actors/training/state/state_snapshot.hpp"
#include "core/buffer.hpp"
#include "core/mesh.hpp"
#include "core/stream.hpp"
#include "model/parameters/parameter_store.hpp"
#include "model/weights/weights.hpp"

namespace pipetrain {

// Used by the rank's worker, not thread-safe.
class FrozenWeights {
 public:
  struct Setup {
    const ParameterLayout& layout;  // of the group
    MeshCoordinate rank;
    DType type = DType::f32;
    bool saves = false;    // its rank keeps host memory for a snapshot of its states
    bool is_saved = true;  // checkpoints have these weights
  };
  // Allocates zeros. The layout and the stream must outlive it. Throws Error(out_of_memory).
  FrozenWeights(const Setup& setup, Stream& stream);
  ~FrozenWeights() { finish_before_freeing(stream_); }
  FrozenWeights(const FrozenWeights&) = delete;
  FrozenWeights& operator=(const FrozenWeights&) = delete;

  ParameterStore& weights() { return views_; }
  const Tensor& arena() const { return arena_; }

  // Rounds to the type, to nearest even. Waits for the stream. Throws what the source throws.
  void load(const WeightSource& source);
  // Copies elements of a parameter's slice, dense, to host memory, as f32, which represents all values of the other
  // types. Waits for the stream.
  void read(std::size_t parameter, const Region& elements, float* out) const;
  // Returns the parts that this rank saves (saved_frozen_parts()), by index in the group's layout.
  std::vector<HeldState> saved() const;

  // Returns the bytes that it will allocate, and those of the snapshot. Pure.
  static MemoryUse memory(const Setup& setup);

 private:
  Setup setup_;
  Stream& stream_;
  Buffer memory_;
  Tensor arena_;
  ResidentParameters views_;
};

}  // namespace pipetrain
