// Runs a list of independent jobs on threads that live as long as the call.
#pragma once

#include <cstddef>
#include <functional>

namespace pipetrain {

// Calls work(i) for each i below count on that many threads, including the caller's, or on fewer where no more can be
// started; jobs begin in order. Rethrows the first failure, after which no further job begins.
void on_threads(unsigned threads, std::size_t count, const std::function<void(std::size_t)>& work);

}  // namespace pipetrain
