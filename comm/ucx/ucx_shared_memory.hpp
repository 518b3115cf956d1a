// Memory that the processes of one machine share: other processes than its owner map it, and fill it or copy from it. A
// copy takes one pass; process_vm_readv, which looks up the other process's pages one by one, is slower.
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
#include "core/wire_fields.hpp"

namespace pipetrain {

// Everything that another process needs to map it.
struct SharedMemoryName {
  std::uint64_t address = 0;  // in the owner's process
  std::uint64_t bytes = 0;
  std::int32_t file = -1;    // the owner's file descriptor
  std::uint64_t secret = 0;  // the end of the file, which proves that it is the right one, whatever its number means elsewhere

  static void wire_fields(auto& wire, auto& name) { wire(name.address, name.bytes, name.file, name.secret); }
};

struct SharedBuffer {
  Buffer memory;
  std::optional<SharedMemoryName> name;  // no value where this system cannot share memory: the memory is ordinary then
  FileDescriptor file;                   // close it once all who want to have mapped it
};

// Allocates memory of a CPU device. Throws as Device::allocate() does. Thread-safe.
SharedBuffer allocate_shared(Device& device, std::size_t bytes, const std::string& what);

// A mapping of another process's memory of that name.
class MappedMemory {
 public:
  enum class Access { read, write };

  // Returns null where the file cannot be opened or is another one. Never throws for wrong names.
  static std::unique_ptr<MappedMemory> open(std::int64_t pid, const SharedMemoryName& name, Access access = Access::read);
  ~MappedMemory();
  MappedMemory(const MappedMemory&) = delete;
  MappedMemory& operator=(const MappedMemory&) = delete;

  // Returns this process's address of `address` in the owner's process; null where the bytes are not all within this memory.
  const std::byte* at(std::uint64_t address, std::size_t bytes) const { return place(address, bytes); }
  // Returns the same for writing, for memory opened with write access.
  std::byte* writable_at(std::uint64_t address, std::size_t bytes) const { return place(address, bytes); }

 private:
  MappedMemory(const SharedMemoryName& name, std::byte* data) : name_(name), data_(data) {}
  std::byte* place(std::uint64_t address, std::size_t bytes) const;

  SharedMemoryName name_;
  std::byte* data_;
};

}  // namespace pipetrain
