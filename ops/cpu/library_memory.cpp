#include "ops/cpu/library_memory.hpp"

#include <sys/mman.h>

#include <cerrno>
#include <cstddef>

#include "core/address_space.hpp"
#include "core/error.hpp"

namespace pipetrain::cpu {
namespace {

// An upper bound for all kernels of a product and the buffers into which its threads pack matrices.
constexpr std::size_t enough = std::size_t{16} << 20;

}  // namespace

void require_library_memory() {
  static const bool limited = address_space_limit().has_value();
  if (!limited) return;
  void* const memory =
      ::mmap(nullptr, enough, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory != MAP_FAILED) {
    ::munmap(memory, enough);
  } else if (errno == ENOMEM) {
    throw Error(
        ErrorKind::out_of_memory,
        "the host: oneDNN, which multiplies matrices, has no memory for its code and buffers; raise ulimit -v, or use a "
        "smaller model or microbatch");
  }
}

}  // namespace pipetrain::cpu
