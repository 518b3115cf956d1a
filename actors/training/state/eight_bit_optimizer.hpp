// The optimizer's data of a parameter group whose moments take 8 bits an element (ops/eight_bit.hpp), on the device. Blocks
// begin at a parameter's slice, so replicas, which cut slices at multiples of them, do not change them; tensor-parallel ranks
// do. Small tensors have moments in fp32.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "actors/training/state/resident_optimizer.hpp"
#include "ops/eight_bit.hpp"

namespace pipetrain {

// The places of all moments of a rank, in one memory for each of the two. Pure.
class EightBitPlaces {
 public:
  explicit EightBitPlaces(const StatePlaces& places);

  // A held part of a parameter. Its moments begin at these bytes of the memory; those in fp32 have no codes.
  struct Part {
    HeldPlace held;
    bool in_fp32 = false, decays = true;
    bool follows = false;               // in every arena it begins where the part before it ends: one operation steps both
    std::size_t codes = 0, values = 0;  // values: of the magnitudes of blocks, or of elements in fp32
  };
  // The parts of each unit, in the order of their weights.
  const std::vector<std::vector<Part>>& by_unit() const { return parts_; }
  std::size_t bytes() const { return bytes_; }  // of one moment

 private:
  void place(std::span<Part> row);  // parts that follow one another

  std::vector<std::vector<Part>> parts_;
  std::size_t bytes_ = 0;
};

// A state's elements count as those of a resident state, and are read and written as f32. Written values are rounded to the
// nearest ones that 8 bits give; values that were read are written back to the bit. Parts are written whole.
class EightBitOptimizer final : public ResidentOptimizer {
 public:
  explicit EightBitOptimizer(const Setup& setup);

  float* on_device(const std::string& state) const override;
  void read(const std::string& state, std::size_t begin, float* values, std::size_t count) override;
  void begin_writing(const std::string& state) override;
  void write(const std::string& state, std::size_t begin, const float* values, std::size_t count) override;
  void preview(const Tensor& grads, const OptimizerStep& step) override;
  void step(const Tensor& grads, const OptimizerStep& step, const Listener& listener) override;

 private:
  // The number of a moment: 0 or 1. Throws where the optimizer has no such state.
  std::size_t moment(const std::string& state) const;
  const EightBitPlaces::Part& part_at(std::size_t state_begin) const;
  EightBitState on_device(std::size_t moment, const EightBitPlaces::Part& part) const;
  void step_unit(std::span<const EightBitPlaces::Part> parts, const OptimizerArenas& arenas, const OptimizerStep& step,
                 bool is_preview);
  // row: parts that follow one another.
  void step_row(std::span<const EightBitPlaces::Part> row, const OptimizerArenas& arenas, const OptimizerStep& step,
                bool is_preview);

  EightBitPlaces places_;
  std::vector<const EightBitPlaces::Part*> by_state_;  // rising
  std::array<char*, 2> memory_ = {};
  std::mutex turn_;
};

}  // namespace pipetrain
