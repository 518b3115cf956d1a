// Weights outside of the device that are fetched for use: the matrices or the table of a block into a slot, ahead of
// use; then the slot serves another block. Vectors are small: they are fetched once a step, and stay.
// Source: Rajbhandari et al. 2021, "ZeRO-Infinity", arXiv 2104.07857.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "actors/training/offload/offloaded_units.hpp"
#include "actors/training/places/unit_slots.hpp"
#include "actors/training/state/step_parameters.hpp"
#include "core/buffer.hpp"

namespace pipetrain {

// Used by the rank's worker; not thread-safe.
class FetchedParameters final : public StepParameters {
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

  void begin_step(schedules::StepKind kind) override;
  void publish(std::size_t unit) override { weights_.stored(unit); }
  void loaded() override { weights_.settle(); }
  void set_rehearsing(bool rehearsing) override;
  Tensor settled() override;
  const std::vector<Tensor>& acquire(std::size_t block) override;
  void release(std::size_t block) override;

 private:
  struct Slot {
    char* pages = nullptr;
    bool on_its_way = false;
    std::unique_ptr<Event> fetched, released;
  };

  void make_slots(char* memory, int prefetch);
  void make_views();
  void fill(std::size_t slot, std::size_t unit);

  Setup setup_;
  OffloadedUnits weights_;
  Buffer memory_;
  UnitSlots unit_slots_;
  std::vector<char*> vector_pages_;  // by unit; null: no vectors
  std::vector<Slot> slots_;
  // By block and slot; one list of views where there is no slot.
  std::vector<std::vector<std::vector<Tensor>>> views_;
  std::unique_ptr<Event> stepped_, vectors_fetched_;
  bool rehearsing_ = false, vectors_on_their_way_ = false;
};

}  // namespace pipetrain
