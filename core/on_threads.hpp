// A list of independent pieces of work, spread over threads that live as long as the call.
#pragma once

#include <cstddef>
#include <functional>

namespace pipetrain {

// Calls work(i) for each i below count on that many threads, the caller's included, or fewer where there are no more; the
// pieces begin in order. Rethrows the first failure, after which no further piece begins.
void on_threads(unsigned threads, std::size_t count, const std::function<void(std::size_t)>& work);

}  // namespace pipetrain
