// The inputs that have arrived at a stage for the running step and for the coming one. Internal to schedules/.
#pragma once

#include <cstdint>
#include <vector>

#include "schedules/protocol/stage_protocol.hpp"

namespace pipetrain::schedules {

class Inputs {
 public:
  Inputs(int chunks, int microbatches)
      : microbatches_(microbatches), bits_(static_cast<std::size_t>(chunks) * static_cast<std::size_t>(microbatches)) {}

  bool has(InputKind kind, int chunk, int microbatch) const { return (bits_[index(chunk, microbatch)] & now(kind)) != 0; }
  bool has_for_coming_step(InputKind kind, int chunk, int microbatch) const {
    return (bits_[index(chunk, microbatch)] & coming(kind)) != 0;
  }
  // Returns false when the input was there already.
  bool add(InputKind kind, int chunk, int microbatch) { return set(chunk, microbatch, now(kind)); }
  bool add_for_coming_step(InputKind kind, int chunk, int microbatch) { return set(chunk, microbatch, coming(kind)); }
  void forget_for_coming_step(InputKind kind, int chunk, int microbatch) {
    auto& bits = bits_[index(chunk, microbatch)];
    bits = static_cast<std::uint8_t>(bits & ~coming(kind));
  }
  void begin_step() {
    for (auto& bits : bits_) bits = static_cast<std::uint8_t>(bits >> kinds);
  }

 private:
  static constexpr int kinds = 3;
  static std::uint8_t now(InputKind kind) { return static_cast<std::uint8_t>(1 << static_cast<int>(kind)); }
  static std::uint8_t coming(InputKind kind) { return static_cast<std::uint8_t>(now(kind) << kinds); }
  std::size_t index(int chunk, int microbatch) const {
    return static_cast<std::size_t>(chunk) * static_cast<std::size_t>(microbatches_) + static_cast<std::size_t>(microbatch);
  }
  bool set(int chunk, int microbatch, std::uint8_t bit) {
    auto& bits = bits_[index(chunk, microbatch)];
    const bool is_new = (bits & bit) == 0;
    bits |= bit;
    return is_new;
  }

  int microbatches_;
  std::vector<std::uint8_t> bits_;
};

}  // namespace pipetrain::schedules
