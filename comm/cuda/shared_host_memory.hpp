// Host memory that processes of one host map, and that their GPUs reach. CUDA builds only.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace pipetrain {

// Thread-safe, but for what is written to it.
class SharedHostMemory {
 public:
  // Makes so many bytes, all 0, or opens what another process of this host has made. The device is one of this process. Throws
  // Error(unavailable), and Error(peer_lost) for memory smaller than its maker says.
  static std::shared_ptr<SharedHostMemory> create(std::size_t bytes, int device);
  static std::shared_ptr<SharedHostMemory> open(const std::string& name, std::size_t bytes, int device);
  ~SharedHostMemory();
  SharedHostMemory(const SharedHostMemory&) = delete;
  SharedHostMemory& operator=(const SharedHostMemory&) = delete;

  const std::string& name() const { return name_; }
  std::size_t bytes() const { return bytes_; }
  char* host() const { return host_; }
  char* device() const { return device_; }  // the same memory, as GPUs of this process address it
  // Nobody can open it any more: called once all have, so that nothing is left behind when processes die.
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
