// Numbers of a rank that lie outside of the device in one flat array, as ParameterLayout has its arenas, and come by runs:
// those that operations read of weights.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>

#include "actors/training/offload/offload_place.hpp"
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
    std::string name;              // of the rank and of what this is, for errors
  };
  struct Lengths {
    std::size_t elements = 0;
    std::size_t largest = 0;  // elements that one transfer moves
    DType type = DType::f32;
  };
  // Allocates; all zero. Throws what the places throw.
  OffloadedArray(const Setup& setup, const Lengths& lengths);
  static PlaceBytes bytes(const Lengths& lengths);

  // A run of elements moves as whole pages of the place. On the device it lies in memory that begins at a multiple of
  // OffloadPlace::granularity, this many elements after it, and takes this many bytes.
  static std::size_t lead(const Region& elements, DType type);
  static std::size_t page_bytes(const Region& elements, DType type);

  DType type() const { return lengths_.type; }
  OffloadStreams& streams() { return setup_.streams; }
  // Enqueued on the streams. What is stored is whole pages.
  void fetch(const Region& elements, void* pages);
  void store(const Region& elements, const void* pages);

  // Of f32, from and to the host; waits for the streams. Different elements may be written on several threads at once.
  void read(std::size_t begin, float* values, std::size_t count);
  void write(std::size_t begin, const float* values, std::size_t count);

 private:
  Setup setup_;
  Lengths lengths_;
  std::unique_ptr<OffloadPlace> place_;
};

}  // namespace pipetrain
