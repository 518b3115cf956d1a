// Threads that load a rank's tensors.
#pragma once

#include <cstddef>
#include <functional>

#include "core/device.hpp"

namespace pipetrain {

// GPUs share the host's cores while they are loaded; a CPU device's cores are what the ranks are.
unsigned loading_threads(const Device& device);

// Calls work(i) for each i below count on that many threads, or fewer where there are no more; rethrows the first failure.
void on_threads(unsigned threads, std::size_t count, const std::function<void(std::size_t)>& work);

}  // namespace pipetrain
