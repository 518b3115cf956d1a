// Streams of another library in this process, given by their native handle (cudaStream_t as a number), so that its work
// can be ordered with this library's by events.
#pragma once

#include <cstdint>

#include "core/event.hpp"

namespace pipetrain {

// Do the same as Stream::record() and Stream::wait(), for a stream of the GPU with this number. They throw Error
// (unavailable) in a build without CUDA, and CUDA's failures.
void record_on_native(Event& event, std::uintptr_t stream, int device);
void let_native_wait(const Event& event, std::uintptr_t stream, int device);

}  // namespace pipetrain
