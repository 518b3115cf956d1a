// Gives one rank of a group access to the memory of ranks in other processes of its host. CUDA builds only.
//
// An address means nothing to another process. A *place* does: the number of one of its rank's allocations, and an
// offset in it. Each process maps the others' allocations, and so converts a place into an address of its own.
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

  // Returns the rank's mailbox at the address for this rank's device: cuda_group_mailbox_bytes() of device memory, initially
  // zero.
  virtual void* mailbox(int rank) const = 0;
  // Returns the place of a tensor of this rank; 0 for an empty one. The first call shares all present allocations of
  // the rank's device, which must outlive the group's last collective, and blocks until every rank has done so. Throws
  // the cause of an abort, and Error(internal) for memory that was allocated later.
  virtual Place place_of(const Tensor& tensor) = 0;
  // After the first place_of(): returns this rank's address of a place of another rank.
  virtual char* reach(int rank, Place place) const = 0;
  // The same for kernels, in memory of this rank's device: [max_cuda_group_ranks][most_allocations], the begin of each.
  virtual const char* const* beginnings() const = 0;
  // Ends the waits. Thread-safe.
  virtual void abort(const std::exception_ptr& cause) noexcept = 0;

 protected:
  FarMemory() = default;
};

}  // namespace pipetrain
