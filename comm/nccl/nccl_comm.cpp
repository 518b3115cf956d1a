#include "comm/nccl/nccl_comm.hpp"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <thread>

#include "comm/nccl/nccl_put_signal.hpp"
#include "core/error.hpp"

namespace pipetrain {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds settle_limit{120}, finalize_limit{3}, abort_patience{1};

}  // namespace

Bytes make_nccl_id() {
  ncclUniqueId id;
  const ncclResult_t result = nccl().get_unique_id(&id);
  if (result != ncclSuccess) {
    throw Error(ErrorKind::unavailable, std::string("NCCL cannot listen for peers: ") + nccl().error_string(result) +
                                            "; NCCL_SOCKET_IFNAME names the network interface");
  }
  const auto* bytes = reinterpret_cast<const std::byte*>(id.internal);
  return {bytes, bytes + sizeof id.internal};
}

NcclComm::NcclComm(const NcclPlace& place) : rank_(place.rank), size_(place.size), device_(place.device), peer_(place.peer) {
  ncclUniqueId id;
  if (place.id.size() != sizeof id.internal) WireReader::refuse("a name of an NCCL communicator of another size");
  std::memcpy(id.internal, place.id.data(), sizeof id.internal);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  if (place.most_blocks > 0) {
    config.minCTAs = 1;
    config.maxCTAs = place.most_blocks;
  }
  cuda_check(cudaSetDevice(device_), "choosing the device", device_);
  check(nccl().comm_init(&comm_, size_, id, rank_, &config), "joining");
}

NcclComm::~NcclComm() {
  const std::lock_guard lock(mutex_);
  if (comm_ == nullptr || aborted_) return;
  end_fast();
  cudaSetDevice(device_);
  if (finalize()) {
    nccl().comm_destroy(comm_);
  } else {
    nccl().comm_abort(comm_);
  }
}

bool NcclComm::finalize() noexcept {
  if (aborting_) return false;
  ncclResult_t state = nccl().comm_finalize(comm_);
  for (const auto limit = Clock::now() + finalize_limit; state == ncclInProgress && Clock::now() < limit && !aborting_;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (nccl().comm_state(comm_, &state) != ncclSuccess) return false;
  }
  return state == ncclSuccess;
}

void NcclComm::check(ncclResult_t result, const char* what) {
  if (result == ncclSuccess || result == ncclInProgress) return;
  throw Error(ErrorKind::peer_lost, "cuda:" + std::to_string(device_) + ": NCCL, " + what +
                                        " failed: " + nccl().error_string(result) + " (" + nccl().last_error(comm_) + ")");
}

void NcclComm::settle() {
  const std::lock_guard lock(mutex_);
  settle_locked();
}

void NcclComm::settle_locked() {
  const auto limit = Clock::now() + settle_limit;
  for (int tries = 0;; ++tries) {
    if (aborting_) throw Error(ErrorKind::aborted, "an NCCL communicator was aborted");
    ncclResult_t state = ncclSuccess;
    check(nccl().comm_state(comm_, &state), "asking for its state");
    check(state, "setting up a transfer");
    if (state == ncclSuccess) return;
    if (Clock::now() > limit) {
      throw Error(ErrorKind::peer_lost, "cuda:" + std::to_string(device_) + ": NCCL waits for a peer for too long");
    }
    if (tries > 100) std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

void NcclComm::transfer(CudaStream& stream, const std::function<void()>& enqueue) {
  const std::lock_guard lock(mutex_);
  if (aborting_ || !stream.begin()) return;
  stream_ = stream.native();
  std::exception_ptr failure;
  nccl().group_start();
  try {
    enqueue();
  } catch (...) {
    failure = std::current_exception();
  }
  try {
    check(nccl().group_end(), "enqueueing a transfer");
    if (!failure) settle_locked();
  } catch (...) {
    if (!failure) failure = std::current_exception();
  }
  if (failure) stream.fail(failure);
}

void NcclComm::send(const void* data, std::size_t bytes, int to) {
  if (bytes > 0) check(nccl().send(data, bytes, ncclUint8, to, comm_, stream_), "sending");
}

void NcclComm::receive(void* data, std::size_t bytes, int from) {
  if (bytes > 0) check(nccl().receive(data, bytes, ncclUint8, from, comm_, stream_), "receiving");
}

void NcclComm::put(const void* data, std::size_t bytes, int to, void* window) {
  check(nccl_puts().functions->put(data, bytes, to, window, comm_, stream_), "putting");
}

void NcclComm::wait_for_put(int from) { check(nccl_puts().functions->wait(from, comm_, stream_), "waiting for a put"); }

bool NcclComm::can_put() const {
  const NcclPutSignal* functions = nccl_puts().functions;
  const std::lock_guard lock(mutex_);
  return functions != nullptr && !aborting_ && functions->possible(comm_);
}

void* NcclComm::make_window(void* data, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  if (aborting_) throw Error(ErrorKind::aborted, "an NCCL communicator was aborted");
  cuda_check(cudaSetDevice(device_), "choosing the device", device_);
  void* window = nullptr;
  check(nccl_puts().functions->make_window(comm_, data, bytes, &window), "making a window");
  settle_locked();
  if (window == nullptr) {
    throw Error(ErrorKind::unavailable, "cuda:" + std::to_string(device_) + ": NCCL cannot make a window of a slot's memory");
  }
  return window;
}

std::string NcclComm::failure() const {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock() || aborting_ || comm_ == nullptr) return {};
  ncclResult_t state = ncclSuccess;
  const ncclResult_t asked = nccl().comm_state(comm_, &state);
  if (asked != ncclSuccess) state = asked;
  return state == ncclSuccess || state == ncclInProgress ? std::string() : nccl().error_string(state);
}

// NCCL ends a communicator on a thread of its own, which nobody can wait for, and which hangs or crashes while CUDA is
// being unloaded (nccl#1013). Exit handlers run in reverse order, so each new communicator registers this one again: it
// then runs before CUDA's.
void NcclComm::end_fast() noexcept {
  ::on_exit(
      [](int status, void*) {
        std::cout.flush();
        std::fflush(nullptr);
        ::_exit(status);
      },
      nullptr);
}

void NcclComm::abort(const std::vector<std::shared_ptr<NcclComm>>& comms) noexcept {
  if (!comms.empty()) end_fast();
  for (const auto& comm : comms) comm->aborting_ = true;
  std::vector<std::unique_lock<std::timed_mutex>> locks;
  bool grouped = false;
  for (const auto& comm : comms) {
    // A call that does not return in time waits for the GPU that the abort releases.
    std::unique_lock lock(comm->mutex_, abort_patience);
    if (comm->comm_ == nullptr || comm->aborted_.exchange(true)) continue;
    if (!grouped) nccl().group_start();
    grouped = true;
    cudaSetDevice(comm->device_);
    nccl().comm_abort(comm->comm_);
    if (lock.owns_lock()) locks.push_back(std::move(lock));
  }
  if (grouped) nccl().group_end();
}

}  // namespace pipetrain
