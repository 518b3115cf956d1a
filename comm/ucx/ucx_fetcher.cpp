#include "comm/ucx/ucx_fetcher.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

namespace pipetrain {
namespace {

// The piece of a fetch; messages are handled in between.
constexpr std::size_t piece = std::size_t{256} << 10;

}  // namespace

bool is_on_this_machine(const ControlPlane& control, int process) {
  const std::string& own = control.info(control.process()).machine;
  return !own.empty() && own == control.info(process).machine;
}

void UcxFetcher::map_memory(int process, const std::vector<SharedMemoryName>& names) {
  if (!is_on_this_machine(control_, process)) return;
  for (const SharedMemoryName& name : names) {
    if (auto memory = MappedMemory::open(control_.info(process).pid, name)) mapped_[process].push_back(std::move(memory));
  }
}

bool UcxFetcher::read(int process, const CrossMemory& from, void* to, std::size_t bytes) const {
  const auto mapped = mapped_.find(process);
  if (mapped != mapped_.end()) {
    for (const auto& memory : mapped->second) {
      const std::byte* data = memory->at(from.address, bytes);
      if (data == nullptr) continue;
      std::memcpy(to, data, bytes);
      return true;
    }
  }
  return read_cross_memory(from, to, bytes);
}

void UcxFetcher::fetch(int process, const CrossMemory& from, std::byte* to, std::size_t bytes, std::function<void(bool)> done) {
  const std::size_t size = std::min(bytes, piece);
  if (presence_.leaving()) return done(false);
  if (!read(process, from, to, size)) {
    if (!presence_.has_left(process))
      presence_.lose(process, std::string("its memory cannot be read (") + std::strerror(errno) + ")");
    return done(false);
  }
  if (size == bytes) return done(true);
  worker_.post([this, process, next = CrossMemory{from.pid, from.address + size}, to = to + size, left = bytes - size,
                done = std::move(done)]() mutable { fetch(process, next, to, left, std::move(done)); });
}

}  // namespace pipetrain
