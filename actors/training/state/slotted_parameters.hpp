// SlottedParameters are weights that are brought to the device for use: the matrices or the table of a block into a slot, ahead
// of use; then the slot serves another block. Vectors are small: they are brought once a step, and stay. Implementations say
// where weights come from.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "actors/training/places/unit_slots.hpp"
#include "actors/training/state/step_parameters.hpp"

namespace pipetrain {

// Used by the rank's worker; not thread-safe.
class SlottedParameters : public StepParameters {
 public:
  void begin_step(schedules::StepKind kind) final;
  const std::vector<Tensor>& acquire(std::size_t block) final;
  void release(std::size_t block) final;

 protected:
  SlottedParameters(const Setup& setup, int prefetch, UnitSlots::Sequences sequences);

  // Returns the stream on which weights are brought.
  virtual Stream& transfer() = 0;
  // Enqueue the transfer of the unit, on that stream: of its vectors, or of its matrices into the slot.
  virtual void bring_vectors(std::size_t unit) = 0;
  virtual void bring(std::size_t unit, std::size_t slot) = 0;

  // Called once for each slot, in order.
  void add_slot();

  // Called once all slots have been added. place(unit, slot): the first element of the unit, in its slot unless it has vectors.
  void make_views(DType type, const std::function<char*(std::size_t unit, std::size_t slot)>& place);
  void rehearse(bool rehearsing) { rehearsing_ = rehearsing; }
  // Later work on the rank's stream sees the vectors.
  void wait_for_vectors();

  const Setup& setup() const { return setup_; }

 private:
  struct Slot {
    bool on_its_way = false;
    std::unique_ptr<Event> brought, released;
  };

  void fill(std::size_t slot, std::size_t unit);

  Setup setup_;
  UnitSlots unit_slots_;
  std::vector<Slot> slots_;  // the table's first
  // By block and slot; one list of views where there is no slot.
  std::vector<std::vector<std::vector<Tensor>>> views_;
  std::unique_ptr<Event> stepped_, vectors_brought_;
  bool rehearsing_ = false, vectors_on_their_way_ = false;
};

}  // namespace pipetrain
