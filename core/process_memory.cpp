#include "core/process_memory.hpp"

#include <sys/uio.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "core/threads/on_threads.hpp"

namespace pipetrain {
namespace {

constexpr std::size_t piece = std::size_t{1} << 26;  // bytes that a thread copies at a time

// The kernel may copy less than it is asked for.
bool read_piece(pid_t process, std::uint64_t address, char* out, std::size_t bytes) {
  while (bytes > 0) {
    const iovec local{out, bytes}, remote{reinterpret_cast<void*>(address), bytes};
    const ssize_t copied = ::process_vm_readv(process, &local, 1, &remote, 1, 0);
    if (copied <= 0) return false;
    const auto count = static_cast<std::size_t>(copied);
    address += count, out += count, bytes -= count;
  }
  return true;
}

}  // namespace

bool read_process_memory(pid_t process, std::uint64_t address, void* out, std::size_t bytes) {
  const std::size_t pieces = (bytes + piece - 1) / piece;
  const unsigned threads = std::clamp(std::thread::hardware_concurrency(), 1U, 8U);
  std::atomic<bool> read = true;
  on_threads(threads, pieces, [&](std::size_t i) {
    const std::size_t begin = i * piece, count = std::min(piece, bytes - begin);
    if (read && !read_piece(process, address + begin, static_cast<char*>(out) + begin, count)) read = false;
  });
  return read;
}

}  // namespace pipetrain
