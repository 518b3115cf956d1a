#include "comm/cuda/shared_host_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <random>

#include "core/cuda/cuda_stream.hpp"
#include "core/error.hpp"

namespace pipetrain {
namespace {

[[noreturn]] void fail_shared_memory(const std::string& what) {
  throw Error(ErrorKind::unavailable,
              "memory that processes of this host share: " + what + ": " + std::strerror(errno) +
                  "; containers need an IPC namespace and a /dev/shm in common, or choose another transport");
}

std::string random_name() {
  std::random_device random;
  return "/pipetrain-" + std::to_string(::getpid()) + "-" + std::to_string(random());
}

}  // namespace

std::shared_ptr<SharedHostMemory> SharedHostMemory::create(std::size_t bytes, int device) {
  const std::shared_ptr<SharedHostMemory> memory(new SharedHostMemory(random_name(), bytes));
  const int file = ::shm_open(memory->name_.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600);
  if (file < 0) fail_shared_memory("making " + memory->name_);
  memory->linked_ = true;
  if (::ftruncate(file, static_cast<off_t>(bytes)) != 0) {
    ::close(file);
    fail_shared_memory("sizing " + memory->name_);
  }
  memory->map(file, device);
  return memory;
}

std::shared_ptr<SharedHostMemory> SharedHostMemory::open(const std::string& name, std::size_t bytes, int device) {
  const std::shared_ptr<SharedHostMemory> memory(new SharedHostMemory(name, bytes));
  const int file = ::shm_open(name.c_str(), O_RDWR, 0600);
  if (file < 0) fail_shared_memory("opening " + name);
  struct stat found {};
  if (::fstat(file, &found) != 0 || static_cast<std::size_t>(found.st_size) < bytes) {
    ::close(file);
    throw Error(ErrorKind::peer_lost, "the shared memory " + name + " is smaller than its maker says");
  }
  memory->map(file, device);
  return memory;
}

void SharedHostMemory::map(int file, int device) {
  void* mapped = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ::close(file);
  if (mapped == MAP_FAILED) fail_shared_memory("mapping " + name_);
  host_ = static_cast<char*>(mapped);
  cuda_check(cudaSetDevice(device), "choosing the device", device);
  cuda_check(cudaHostRegister(host_, bytes_, cudaHostRegisterPortable | cudaHostRegisterMapped), "registering shared memory",
             device);
  registered_ = true;
  void* address = nullptr;
  cuda_check(cudaHostGetDevicePointer(&address, host_, 0), "mapping shared memory", device);
  device_ = static_cast<char*>(address);
}

SharedHostMemory::~SharedHostMemory() {
  unlink();
  if (registered_) cudaHostUnregister(host_);
  if (host_ != nullptr) ::munmap(host_, bytes_);
}

void SharedHostMemory::unlink() noexcept {
  if (linked_) ::shm_unlink(name_.c_str());
  linked_ = false;
}

}  // namespace pipetrain
