// A flat array of a rank outside of its device, laid out as ParameterLayout's arenas, which is moved range by range:
// weights that operations read, or gradients.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>

#include "actors/training/offload/offload_storage.hpp"
#include "actors/training/offload/offload_streams.hpp"
#include "core/dtype.hpp"
#include "core/tensor.hpp"
#include "model/parameters/parameters.hpp"

namespace pipetrain {

// Used by the rank's worker; not thread-safe.
class OffloadedArray {
 public:
  struct Setup {
    Device& device;
    OffloadStreams& streams;
    std::filesystem::path folder;  // of a disk; empty: host memory
    std::string name;              // names the rank and the contents, for errors
  };
  struct Lengths {
    std::size_t elements = 0;
    std::size_t largest = 0;  // the most elements of one transfer
    DType type = DType::f32;
  };
  // Allocates zeros. Throws as OffloadStorage does.
  OffloadedArray(const Setup& setup, const Lengths& lengths);
  static StorageBytes bytes(const Lengths& lengths);

  // A range of elements moves as whole pages. On the device it is in memory that begins at a multiple of
  // OffloadStorage::granularity: `lead` elements after that begin, in `page_bytes` bytes.
  static std::size_t lead(const Region& elements, DType type);
  static std::size_t page_bytes(const Region& elements, DType type);

  DType type() const { return lengths_.type; }
  OffloadStreams& streams() { return setup_.streams; }
  // Enqueued on the streams. Stores write whole pages.
  void fetch(const Region& elements, void* pages);
  void store(const Region& elements, const void* pages);

  // Copies f32 values from and to the host; waits for the streams. Different elements may be written on several threads
  // at once.
  void read(std::size_t begin, float* values, std::size_t count);
  void write(std::size_t begin, const float* values, std::size_t count);

 private:
  Setup setup_;
  Lengths lengths_;
  std::unique_ptr<OffloadStorage> storage_;
};

}  // namespace pipetrain
