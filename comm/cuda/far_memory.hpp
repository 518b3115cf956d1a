// How one rank of a group reaches the memory of the others where some of them run in other processes of its host. CUDA builds
// only.
//
// An address means nothing to another process. A *place* does: the number of one of its rank's allocations, and an offset in
// it. Each process maps the others' allocations, and so turns a place into an address of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>

#include "core/tensor.hpp"

namespace pipetrain {

constexpr int max_cuda_group_ranks = 8;

using Place = std::uint64_t;
constexpr int place_offset_bits = 48;
constexpr Place place_offset_mask = (Place{1} << place_offset_bits) - 1;
constexpr int most_allocations = 1024;  // of a rank

// One rank's view. place_of() is called by one thread at a time.
class FarMemory {
 public:
  virtual ~FarMemory() = default;
  FarMemory(const FarMemory&) = delete;
  FarMemory& operator=(const FarMemory&) = delete;

  // The rank's mailbox, as this rank's device reaches it: cuda_group_mailbox_bytes() of device memory, zero at first.
  virtual void* mailbox(int rank) const = 0;
  // Of a tensor of this rank; an empty one is nowhere, 0. The first call shares all that the rank's device has allocated by
  // then, which must outlive the group's last collective, and blocks until every rank has done so. Throws the cause of an
  // abort, and Error(internal) for memory that was allocated later.
  virtual Place place_of(const Tensor& tensor) = 0;
  // After the first place_of(): where this rank reaches a place of another one.
  virtual char* reach(int rank, Place place) const = 0;
  // The same for kernels, in memory of this rank's device: [max_cuda_group_ranks][most_allocations], where each begins.
  virtual const char* const* beginnings() const = 0;
  // Ends the blocking. Thread-safe.
  virtual void abort(const std::exception_ptr& cause) noexcept = 0;

 protected:
  FarMemory() = default;
};

}  // namespace pipetrain
