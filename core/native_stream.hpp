// Streams that another library of this process made, by their native handle (cudaStream_t as a number): so that its work can be
// ordered with ours by our events.
#pragma once

#include <cstdint>

#include "core/event.hpp"

namespace pipetrain {

// As Stream::record() and Stream::wait(), of a stream of the GPU with this number. Throw Error: unavailable in a build without
// CUDA, and what CUDA refuses.
void record_on_native(Event& event, std::uintptr_t stream, int device);
void let_native_wait(const Event& event, std::uintptr_t stream, int device);

}  // namespace pipetrain
