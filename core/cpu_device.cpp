#include "core/cpu_device.hpp"
#include "core/address_space.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <limits>

#include "core/error.hpp"

namespace pipetrain {
namespace {

constexpr std::size_t unlimited = std::numeric_limits<std::size_t>::max();

// Returns the value of a line "Key:   N kB" of /proc/meminfo, in bytes; unlimited if there is no such line.
std::size_t meminfo(const std::string& key) {
  std::ifstream file("/proc/meminfo");
  std::string word;
  while (file >> word) {
    std::size_t kibibytes = 0;
    if (word == key + ":" && file >> kibibytes) return kibibytes * 1024;
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return unlimited;
}

// Returns a control group's number; "max" and a missing file mean unlimited.
std::size_t cgroup(const char* name) {
  std::ifstream file(std::string("/sys/fs/cgroup/") + name);
  std::size_t bytes = 0;
  return file >> bytes ? bytes : unlimited;
}

// Returns the limit, and what this process may still map.
MemoryInfo address_space() {
  const auto limit = address_space_limit();
  if (!limit) return {unlimited, unlimited};
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const std::size_t used = pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return {*limit, *limit - std::min(used, *limit)};
}

}  // namespace

std::string to_string(const DeviceId& id) { return (id.kind == DeviceKind::cpu ? "cpu:" : "cuda:") + std::to_string(id.index); }

CpuDevice::CpuDevice(int index, int threads) : index_(index), tiles_(threads - 1) {}

MemoryInfo CpuDevice::memory() const {
  const std::size_t limit = cgroup("memory.max"), used = cgroup("memory.current");
  const std::size_t group_free = limit == unlimited || used == unlimited ? unlimited : limit - std::min(used, limit);
  const MemoryInfo space = address_space();
  return {std::min({meminfo("MemTotal"), limit, space.total}), std::min({meminfo("MemAvailable"), group_free, space.free})};
}

namespace {

[[noreturn]] void refuse(const Device& device, std::size_t bytes, std::size_t free, const std::string& what) {
  throw Error(ErrorKind::out_of_memory, to_string(device.id()) + ": " + what + " needs " + std::to_string(bytes) + " bytes, " +
                                            std::to_string(free) +
                                            " are free; use fewer or smaller microbatches or a smaller model");
}

}  // namespace

void require_free(const Device& device, std::size_t bytes, const std::string& what) {
  const std::size_t free = device.memory().free;
  if (bytes > free) refuse(device, bytes, free, what);
}

Buffer CpuDevice::allocate(std::size_t bytes, const std::string& what) {
  const std::size_t size = std::max(align_up(bytes), tensor_alignment);
  require_free(*this, size, what);
  void* data = std::aligned_alloc(tensor_alignment, size);
  if (data == nullptr) refuse(*this, size, memory().free, what);
  return Buffer(data, size, [](void* memory) { std::free(memory); });
}

std::unique_ptr<Device> make_cpu_device(int index, int threads) {
  if (threads < 1) throw Error(ErrorKind::input, {"threads", std::to_string(threads)}, "a device needs at least one thread");
  return std::make_unique<CpuDevice>(index, threads);
}

}  // namespace pipetrain
