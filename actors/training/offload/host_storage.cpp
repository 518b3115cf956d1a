#include <algorithm>
#include <cstring>

#include "actors/training/offload/offload_storage.hpp"
#include "core/loading_threads.hpp"
#include "core/threads/on_threads.hpp"

namespace pipetrain {
namespace {

class HostStorage final : public OffloadStorage {
 public:
  HostStorage(Device& device, std::size_t bytes, const std::string& what) : memory_(device.allocate_host(bytes, what)) {
    constexpr std::size_t piece = std::size_t{1} << 28;
    on_threads(loading_threads(device), (bytes + piece - 1) / piece,
               [&](std::size_t i) { std::memset(at(i * piece), 0, std::min(piece, bytes - i * piece)); });
  }

  void fetch(Stream& stream, std::size_t begin, void* memory, std::size_t bytes) override {
    stream.copy(memory, at(begin), bytes);
  }
  void store(Stream& stream, std::size_t begin, const void* memory, std::size_t bytes) override {
    stream.copy(at(begin), memory, bytes);
  }
  void read(std::size_t begin, void* target, std::size_t bytes) override { std::memcpy(target, at(begin), bytes); }
  void write(std::size_t begin, const void* source, std::size_t bytes) override { std::memcpy(at(begin), source, bytes); }

 private:
  char* at(std::size_t begin) const { return static_cast<char*>(memory_.data()) + begin; }

  Buffer memory_;
};

}  // namespace

std::unique_ptr<OffloadStorage> make_host_storage(Device& device, std::size_t bytes, const std::string& what) {
  return std::make_unique<HostStorage>(device, bytes, what);
}

}  // namespace pipetrain
