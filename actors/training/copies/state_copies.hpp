// Copies in host memory of everything that a rank keeps between steps, as it was after each of its latest steps. They
// outlive the rank, so that a rank that is made anew, in this process or another, continues from one of them.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "core/buffer.hpp"

namespace pipetrain {

// A rank keeps two copies. Where it has a buddy, the buddy keeps two more, and both have memory for one in transit.
inline constexpr int copies_alone = 2, copies_with_buddy = 6;

// Returns as many bytes of host memory, which devices copy to; throws Error(out_of_memory).
using CopyMemory = std::function<Buffer(std::size_t bytes)>;

// Returns memory that the devices of CPU runs copy to.
Buffer plain_copy_memory(std::size_t bytes);

struct StateCopy {
  std::int64_t step = -1;          // steps done when it was taken; -1: never
  std::int64_t applied_steps = 0;  // those of them that the optimizer applied
  std::span<float> values;         // of the parts that the rank holds, in their order
  std::atomic<bool> whole{false};  // all values are those after the step
  Buffer memory = {};              // of the values
};

// Used by one rank's worker at a time; of() and steps() also by other threads while no rank writes.
class StateCopies {
 public:
  explicit StateCopies(CopyMemory allocate = plain_copy_memory) : allocate_(std::move(allocate)) {}

  // Allocates memory for copies of this many elements, before steps begin: GPUs that work together must not wait for it. Throws
  // Error(out_of_memory).
  void reserve(std::size_t elements);

  // Returns the copy to fill with the state after this step: never the newest whole one. Null where that state has been
  // copied before. Set `whole` once the values are complete. Throws Error(out_of_memory).
  StateCopy* begin(std::int64_t step, std::int64_t applied_steps, std::size_t elements);

  // Returns the whole copy after this step, or null.
  const StateCopy* of(std::int64_t step) const;
  // Returns the steps of all whole copies, the newest first.
  std::vector<std::int64_t> steps() const;
  // Returns the bytes of memory that the copies have.
  std::size_t bytes() const;

 private:
  void allocate(StateCopy& copy, std::size_t elements);

  const CopyMemory allocate_;
  std::array<StateCopy, 2> copies_;
};

// A copy that a rank continues from in place of the state that the job begins with.
struct ContinuedState {
  const StateCopies* copies = nullptr;  // null: none
  std::int64_t step = 0;
};

}  // namespace pipetrain
