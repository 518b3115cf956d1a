// ResidentOptimizer keeps the optimizer's data of a parameter group in flat arenas on the device: all of it, or the
// part that OffloadedOptimizer leaves there.
#pragma once

#include <cstddef>
#include <mutex>
#include <string>
#include <vector>

#include "actors/training/places/state_places.hpp"
#include "actors/training/state/optimizer_storage.hpp"
#include "core/buffer.hpp"
#include "core/device.hpp"
#include "model/config/offload.hpp"
#include "model/config/precision.hpp"

namespace pipetrain {

class ResidentOptimizer : public OptimizerStorage {
 public:
  struct Setup {
    Device& device;
    Ops& ops;  // of the rank
    const Optimizer& optimizer;
    std::string optimizer_name;  // for errors
    const StatePlaces& places;
    Precision precision;
    Offload offload;   // the data that is outside of the device
    std::string rank;  // for errors
    // Ranges of the weight arena, ascending, whose gradients become first moments (OptimizerPart::averaged). Only where
    // neither weights nor states are divided or offloaded.
    std::vector<Region> averaged = {};
  };
  // Allocates zeros. The setup's references must outlive it. Throws Error(out_of_memory).
  explicit ResidentOptimizer(const Setup& setup);
  // The same with arrays of states of these lengths.
  ResidentOptimizer(const Setup& setup, const std::vector<std::size_t>& states);
  ~ResidentOptimizer() override { finish_before_freeing(setup_.ops.stream()); }

  // Elements of each array on the device; 0: there is no array. Pure.
  struct Lengths {
    std::size_t weights = 0, rounded = 0;
    std::size_t states = 0;  // of each
  };
  static Lengths lengths(const StatePlaces& places, const Precision& precision, const Offload& offload);

  Tensor operands() const override { return arenas_.rounded.data ? arenas_.rounded : arenas_.weights; }
  float* on_device(const std::string& state) const override { return arena(state).as<float>(); }
  void read(const std::string& state, std::size_t begin, float* values, std::size_t count) override;
  void begin_writing(const std::string& state) override;
  void write(const std::string& state, std::size_t begin, const float* values, std::size_t count) override;
  void round_weights() override;
  void begin_step() override {}
  void preview(const Tensor& grads, const OptimizerStep& step) override;
  void step(const Tensor& grads, const OptimizerStep& step, const Listener& listener) override;

 protected:
  const Setup& setup() const { return setup_; }
  OptimizerArenas arenas(const Tensor& grads) const;
  const std::vector<std::vector<OptimizerPart>>& units() const { return units_; }
  // The memory lives as long as this object.
  Tensor allocate(std::size_t elements, DType dtype, const std::string& what);
  [[noreturn]] void throw_unknown_state(const std::string& state) const;

 private:
  void zero();
  const Tensor& arena(const std::string& state) const;

  Setup setup_;
  std::vector<std::vector<OptimizerPart>> units_;
  std::vector<Buffer> memory_;
  OptimizerArenas arenas_;
  std::mutex stream_turn_;  // serializes threads that write
};

}  // namespace pipetrain
