// Counts the heap memory in use at every allocation, by the sanitizers' hooks or by operators new and delete that a
// program gets by linking heap.cpp.
#pragma once

#include <cstdint>

namespace pipetrain::fuzz {

// The bytes in use now. Correct in programs of one thread.
std::int64_t heap_bytes() noexcept;
// The most bytes in use since the last call of reset_heap_peak().
std::int64_t heap_peak() noexcept;
void reset_heap_peak() noexcept;
// An allocation that would raise heap_bytes() above this ends the process with this status after calling `last_words`,
// which must not allocate. 0: no limit.
void limit_heap(std::int64_t bytes, int status, void (*last_words)()) noexcept;

}  // namespace pipetrain::fuzz
