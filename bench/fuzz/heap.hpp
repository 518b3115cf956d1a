// How much memory of the heap is taken: counted at every allocation, by the sanitizers' hooks or by operators new and delete of
// our own, which a program has that links heap.cpp.
#pragma once

#include <cstdint>

namespace pipetrain::fuzz {

// Bytes that are taken now. Correct in programs of one thread.
std::int64_t heap_bytes() noexcept;
// The most that has been taken since the last call of reset_heap_peak().
std::int64_t heap_peak() noexcept;
void reset_heap_peak() noexcept;
// An allocation that would bring heap_bytes() above this ends the process with this status after calling `last_words`, which
// must not allocate. 0: no limit.
void limit_heap(std::int64_t bytes, int status, void (*last_words)()) noexcept;

}  // namespace pipetrain::fuzz
