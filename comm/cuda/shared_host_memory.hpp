// Host memory that several processes of one host and their GPUs map. CUDA builds only.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace pipetrain {

// Thread-safe, except its contents.
class SharedHostMemory {
 public:
  // Makes this many bytes, all 0, or opens memory that another process of this host has made. The device must be one of
  // this process. Throws Error(unavailable), and Error(peer_lost) for memory smaller than its maker says.
  static std::shared_ptr<SharedHostMemory> create(std::size_t bytes, int device);
  static std::shared_ptr<SharedHostMemory> open(const std::string& name, std::size_t bytes, int device);
  ~SharedHostMemory();
  SharedHostMemory(const SharedHostMemory&) = delete;
  SharedHostMemory& operator=(const SharedHostMemory&) = delete;

  const std::string& name() const { return name_; }
  std::size_t bytes() const { return bytes_; }
  char* host() const { return host_; }
  char* device() const { return device_; }  // the same memory at the address for GPUs of this process
  // Removes the memory's name. Call it once all processes have opened the memory, so that none is left when they die.
  void unlink() noexcept;

 private:
  SharedHostMemory(std::string name, std::size_t bytes) : name_(std::move(name)), bytes_(bytes) {}
  void map(int file, int device);

  std::string name_;
  std::size_t bytes_;
  char* host_ = nullptr;
  char* device_ = nullptr;
  bool registered_ = false, linked_ = false;
};

}  // namespace pipetrain
