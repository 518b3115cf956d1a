#include "comm/cuda/cuda_shared_event.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <random>
#include <thread>

#include "comm/cuda/cuda_driver.hpp"
#include "core/cuda_stream.hpp"
#include "core/error.hpp"

namespace pipetrain {
namespace {

constexpr std::size_t stride = 64;  // a cache line each

[[noreturn]] void fail(const std::string& what) {
  throw Error(ErrorKind::unavailable,
              "memory that processes of this host share: " + what + ": " + std::strerror(errno) +
                  "; containers need an IPC namespace and a /dev/shm in common, or choose another transport");
}

std::string random_name() {
  std::random_device random;
  return "/pipetrain-" + std::to_string(::getpid()) + "-" + std::to_string(random());
}

}  // namespace

std::shared_ptr<SharedCounters> SharedCounters::create(std::size_t count, int device) {
  const std::shared_ptr<SharedCounters> counters(new SharedCounters(random_name(), count));
  const int file = ::shm_open(counters->name_.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600);
  if (file < 0) fail("making " + counters->name_);
  counters->linked_ = true;
  if (::ftruncate(file, static_cast<off_t>(count * stride)) != 0) {
    ::close(file);
    fail("sizing " + counters->name_);
  }
  counters->map(file, device);
  return counters;
}

std::shared_ptr<SharedCounters> SharedCounters::open(const std::string& name, std::size_t count, int device) {
  const std::shared_ptr<SharedCounters> counters(new SharedCounters(name, count));
  const int file = ::shm_open(name.c_str(), O_RDWR, 0600);
  if (file < 0) fail("opening " + name);
  struct stat found {};
  if (::fstat(file, &found) != 0 || static_cast<std::size_t>(found.st_size) < count * stride) {
    ::close(file);
    throw Error(ErrorKind::peer_lost, "the shared memory " + name + " is smaller than its maker says");
  }
  counters->map(file, device);
  return counters;
}

void SharedCounters::map(int file, int device) {
  void* mapped = ::mmap(nullptr, count_ * stride, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ::close(file);
  if (mapped == MAP_FAILED) fail("mapping " + name_);
  host_ = static_cast<char*>(mapped);
  cuda_check(cudaSetDevice(device), "choosing the device", device);
  cuda_check(cudaHostRegister(host_, count_ * stride, cudaHostRegisterPortable | cudaHostRegisterMapped),
             "registering shared memory", device);
  registered_ = true;
  void* address = nullptr;
  cuda_check(cudaHostGetDevicePointer(&address, host_, 0), "mapping shared memory", device);
  device_ = static_cast<char*>(address);
}

SharedCounters::~SharedCounters() {
  unlink();
  if (registered_) cudaHostUnregister(host_);
  if (host_ != nullptr) ::munmap(host_, count_ * stride);
}

void SharedCounters::unlink() noexcept {
  if (linked_) ::shm_unlink(name_.c_str());
  linked_ = false;
}

std::atomic<std::uint32_t>& SharedCounters::value(std::size_t index) const {
  static_assert(std::atomic<std::uint32_t>::is_always_lock_free && sizeof(std::atomic<std::uint32_t>) == 4);
  return *reinterpret_cast<std::atomic<std::uint32_t>*>(host_ + index * stride);
}

void* SharedCounters::device_address(std::size_t index) const { return device_ + index * stride; }

void SharedEvent::release() noexcept {
  constexpr std::uint32_t far_ahead = 1U << 30;
  released_ = true;
  counters_->value(index_) = reached_ + far_ahead;
}

bool SharedEvent::query() const {
  if (refused_ || released_) return true;
  return static_cast<std::int32_t>(counters_->value(index_).load() - reached_.load()) >= 0;
}

void SharedEvent::synchronize() const {
  while (!query()) std::this_thread::sleep_for(std::chrono::microseconds(20));
}

cudaError_t SharedEvent::record_on(cudaStream_t stream, int) {
  const cudaError_t status = enqueue_write(stream, counters_->device_address(index_), ++reached_);
  refused_ = status != cudaSuccess;
  return status;
}

cudaError_t SharedEvent::wait_on(cudaStream_t stream) const {
  const std::uint32_t record = reached_;
  if (record == 0 || released_) return cudaSuccess;
  return enqueue_wait_until(stream, counters_->device_address(index_), record);
}

}  // namespace pipetrain
