#include "bench/fuzz/heap.hpp"

#include <malloc.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <new>

#if defined(__SANITIZE_ADDRESS__)
// Declares functions of the sanitizer's allocator_interface.h, which GCC does not install.
extern "C" {
int __sanitizer_install_malloc_and_free_hooks(void (*malloc_hook)(const volatile void*, std::size_t),
                                              void (*free_hook)(const volatile void*));
std::size_t __sanitizer_get_allocated_size(const volatile void* memory);
}
#endif

namespace pipetrain::fuzz {
namespace {

std::int64_t taken = 0, peak = 0, limit = 0;
int limit_status = 1;
void (*limit_words)() = nullptr;

void add(std::int64_t bytes) {
  taken += bytes;
  if (taken > peak) peak = taken;
  if (limit == 0 || taken <= limit) return;
  limit_words();
  ::_exit(limit_status);
}

}  // namespace

std::int64_t heap_bytes() noexcept { return taken; }
std::int64_t heap_peak() noexcept { return peak; }
void reset_heap_peak() noexcept { peak = taken; }
void limit_heap(std::int64_t bytes, int status, void (*last_words)()) noexcept {
  limit = bytes, limit_status = status, limit_words = last_words;
}

}  // namespace pipetrain::fuzz

#if defined(__SANITIZE_ADDRESS__)

namespace {

void count_malloc(const volatile void*, std::size_t size) { pipetrain::fuzz::add(static_cast<std::int64_t>(size)); }
void count_free(const volatile void* memory) {
  if (memory == nullptr) return;
  const std::size_t size = __sanitizer_get_allocated_size(memory);
  pipetrain::fuzz::add(-static_cast<std::int64_t>(size));
}
const int installed = __sanitizer_install_malloc_and_free_hooks(count_malloc, count_free);

}  // namespace

#else

namespace {

void* counted(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  pipetrain::fuzz::add(static_cast<std::int64_t>(::malloc_usable_size(memory)));
  return memory;
}
void give_back(void* memory) noexcept {
  pipetrain::fuzz::add(-static_cast<std::int64_t>(::malloc_usable_size(memory)));
  std::free(memory);
}

}  // namespace

// The other forms, for arrays and without exceptions, call these.
void* operator new(std::size_t size) { return counted(std::malloc(size)); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  const auto step = static_cast<std::size_t>(alignment);
  return counted(std::aligned_alloc(step, (size + step - 1) / step * step));
}
void operator delete(void* memory) noexcept { give_back(memory); }
void operator delete(void* memory, std::size_t) noexcept { give_back(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { give_back(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { give_back(memory); }

#endif
