// The frozen matrices of a rank in fewer bits than operations read (WeightForm), and memory for the blocks in use, to which
// they are dequantised. Every replica keeps all of them on its device.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "actors/engine/stage_compute.hpp"
#include "core/buffer.hpp"
#include "core/mesh.hpp"
#include "model/parameters/parameter_store.hpp"
#include "model/weights/weights.hpp"
#include "ops/ops.hpp"

namespace pipetrain {

// Used by the rank's worker, not thread-safe. A block is dequantised when it is acquired, unless its values are still there
// from its last use.
class QuantisedWeights final : public ParameterStore {
 public:
  struct Setup {
    const ParameterLayout& layout;  // of the group
    MeshCoordinate rank;
    WeightForm form = WeightForm::nf4;
    DType type = DType::f32;  // that operations read
    int blocks_in_use = 1;    // the most blocks that are held at once
  };
  // Allocates memory for the matrices and for blocks_in_use blocks. The layout and the operations must outlive it. Throws
  // Error(input) where ranks divide what shares a scale, and Error(out_of_memory).
  QuantisedWeights(const Setup& setup, Ops& ops);
  ~QuantisedWeights() override { finish_before_freeing(ops_.stream()); }

  const std::vector<Tensor>& acquire(std::size_t block) override;
  void release(std::size_t block) override;

  // Takes the matrices from the source, in its own codes where it has them in this form. A GPU draws and quantises matrices of
  // nf4 that begin with random numbers; others are quantised on the host, a few at a time. The bits are the same. Waits for the
  // stream. Throws what the source throws.
  void load(const WeightSource& source);
  // Copies elements of a parameter's slice, dequantised to the operations' type, to host memory. No block may be held. Waits
  // for the stream.
  void read(std::size_t parameter, const Region& elements, float* out);

  // Returns the bytes that it will allocate. Throws Error(input) as the constructor does. Pure.
  static MemoryUse memory(const Setup& setup);

 private:
  // Memory for one block, dequantised.
  struct Slot {
    std::byte* data = nullptr;
    std::optional<std::size_t> block;             // whose values it has
    int held = 0;                                 // acquired, and not released
    std::vector<std::vector<Tensor>> views = {};  // by block
  };

  // Memory for drawing a logical matrix, in that of the slots.
  struct DrawingMemory {
    Tensor scales;  // of all its blocks
    Tensor values;  // some of them, in whole blocks
  };

  Slot& slot_for(std::size_t block);
  // Returns nothing where the device draws no matrices of this layout.
  std::optional<DrawingMemory> drawing_memory(const QuantisedLayout& layout) const;
  void draw(const NormalDraw& draw, const DrawingMemory& memory, const QuantisedMatrix& matrix);
  void dequantise(std::size_t block, const Slot& slot);

  Setup setup_;
  Ops& ops_;
  std::vector<QuantisedMatrix> matrices_;             // by parameter
  std::vector<std::vector<std::size_t>> parameters_;  // of each block
  Buffer memory_, values_;
  std::vector<Slot> slots_;
};

}  // namespace pipetrain
