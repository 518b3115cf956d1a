// Weights outside of the device that are fetched for use.
// Source: Rajbhandari et al. 2021, "ZeRO-Infinity", arXiv 2104.07857.
#pragma once

#include <cstddef>
#include <vector>

#include "actors/training/offload/offloaded_units.hpp"
#include "actors/training/state/slotted_parameters.hpp"
#include "core/buffer.hpp"

namespace pipetrain {

// Used by the rank's worker; not thread-safe.
class FetchedParameters final : public SlottedParameters {
 public:
  // The memory of the weights on the device. Pure.
  struct Sizes {
    std::size_t vectors = 0;           // bytes of all vectors
    std::size_t table = 0, block = 0;  // bytes of the table's slot, and of each other slot
    UnitSlots::Slots slots;
    std::size_t bytes() const;
  };
  static Sizes sizes(const ParameterLayout& layout, const std::vector<ShardUnit>& units, int prefetch, DType type);

  // The setup's units must be for one replica; `weights` must outlive it. Allocates sizes().bytes() on the device.
  // Throws Error(out_of_memory).
  FetchedParameters(const Setup& setup, OffloadedArray& weights, int prefetch, UnitSlots::Sequences sequences);

  void publish(std::size_t unit) override { weights_.stored(unit); }
  void loaded() override { weights_.settle(); }
  void set_rehearsing(bool rehearsing) override;
  Tensor settled() override;

 private:
  Stream& transfer() override { return weights_.in(); }
  void bring_vectors(std::size_t unit) override { weights_.fetch(unit, vector_pages_[unit]); }
  void bring(std::size_t unit, std::size_t slot) override { weights_.fetch(unit, slot_pages_[slot]); }
  void place_pages(char* memory, int prefetch);

  OffloadedUnits weights_;
  Buffer memory_;
  std::vector<char*> vector_pages_;  // by unit; null: no vectors
  std::vector<char*> slot_pages_;
};

}  // namespace pipetrain
