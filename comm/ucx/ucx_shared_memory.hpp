// Memory that the processes of one machine share: others than its owner map it, and fill it or copy from it. A copy takes one
// pass through the memory; process_vm_readv, which finds the other process's pages one by one, takes longer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "comm/ucx/file_descriptor.hpp"
#include "core/buffer.hpp"
#include "core/device.hpp"
#include "core/wire.hpp"

namespace pipetrain {

// What another process must know to map it.
struct SharedMemoryName {
  std::uint64_t address = 0;  // in the owner's process
  std::uint64_t bytes = 0;
  std::int32_t file = -1;    // the owner's file descriptor
  std::uint64_t secret = 0;  // which the file ends with: that it is this one, whatever its number says elsewhere

  void write(WireWriter& to) const;
  // Throws Error(peer_lost).
  static SharedMemoryName read(WireReader& from);
  static constexpr std::size_t wire_bytes = 28;
};

struct SharedBuffer {
  Buffer memory;
  std::optional<SharedMemoryName> name;  // nothing where this system lets nobody share: the memory is ordinary then
  FileDescriptor file;                   // to be closed once all who want to have mapped it
};

// Of a CPU device. Throws as Device::allocate() does. Thread-safe.
SharedBuffer allocate_shared(Device& device, std::size_t bytes, const std::string& what);

// Another process's memory of that name.
class MappedMemory {
 public:
  enum class Access { read, write };

  // Null where the file cannot be opened or is another one. Never throws for what the name claims.
  static std::unique_ptr<MappedMemory> open(std::int64_t pid, const SharedMemoryName& name, Access access = Access::read);
  ~MappedMemory();
  MappedMemory(const MappedMemory&) = delete;
  MappedMemory& operator=(const MappedMemory&) = delete;

  // Where this process reads what is at `address` in the owner's; null where that is not all within this memory.
  const std::byte* at(std::uint64_t address, std::size_t bytes) const { return place(address, bytes); }
  // The same, to be written. Of memory opened so.
  std::byte* writable_at(std::uint64_t address, std::size_t bytes) const { return place(address, bytes); }

 private:
  MappedMemory(const SharedMemoryName& name, std::byte* data) : name_(name), data_(data) {}
  std::byte* place(std::uint64_t address, std::size_t bytes) const;

  SharedMemoryName name_;
  std::byte* data_;
};

}  // namespace pipetrain
