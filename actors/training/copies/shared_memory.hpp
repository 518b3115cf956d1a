// Memory that processes of one machine share. It exists as long as one of them has it, also after its maker was killed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace pipetrain {

// Thread-safe, except its contents.
class SharedMemory {
 public:
  // Names memory for other processes of the machine, as long as the process that gave the key is alive and has the memory.
  struct Key {
    std::int64_t process = 0, file = -1;  // its process number and its descriptor
    std::uint64_t inode = 0;              // equal for the same memory, whoever gave the key
    std::uint64_t bytes = 0;

    template <class Wire>
    static void wire_fields(Wire& wire, auto& key) {
      wire(key.process, key.file, key.inode, key.bytes);
    }
  };

  // Makes this many bytes, all 0; pages take memory once they are written. Throws Error(out_of_memory).
  static std::shared_ptr<SharedMemory> make(std::size_t bytes);
  // Opens memory of another process, or of this one. Throws Error: peer_lost where the process is gone or has given the memory
  // up, unavailable where the kernel does not permit it.
  static std::shared_ptr<SharedMemory> open(const Key& key);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  void* data() const { return data_; }
  std::size_t bytes() const { return key_.bytes; }
  const Key& key() const { return key_; }  // given by this process

 private:
  SharedMemory(int file, std::size_t bytes);

  Key key_;
  void* data_ = nullptr;
};

}  // namespace pipetrain
