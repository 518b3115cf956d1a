// Stores the gradients of a parameter group. Those of attention and MLP blocks' matrices are outside the device while nothing
// is added to them (OffloadedGradients).
#pragma once

#include <optional>
#include <vector>

#include "actors/training/places/offloaded_gradients.hpp"
#include "actors/training/state/gradient_storage.hpp"
#include "model/config/offload.hpp"

namespace pipetrain {

class OffloadedGradientStorage final : public GradientStorage {
 public:
  // Also throws what OffloadedArray throws.
  OffloadedGradientStorage(const Setup& setup, OffloadStreams& streams, const Offload& offload);

  // Additional elements of the arena, beyond StatePlaces::grads(): it is aligned to pages, because blocks move as pages.
  static constexpr std::size_t alignment = OffloadStorage::granularity / sizeof(float);

  void begin_step() override;
  void open(std::size_t block) override { offloaded_.open(block); }
  bool closes() const override { return true; }
  void close(std::size_t block, bool last) override { offloaded_.close(block, last); }
  void start_reduction(const Tensor& grads) override;
  void reduce(int chunk) override;
  void square_sums(const std::vector<CountedPart>& counted, const Tensor& sums) override;
  void read(std::optional<std::size_t> unit) override { offloaded_.read(unit); }

 private:
  OffloadedGradients::Setup offloaded_setup();
  std::vector<void*> slots() const;  // by unit; null: it stays on the device

  OffloadedArray outside_;
  OffloadedGradients offloaded_;
};

}  // namespace pipetrain
