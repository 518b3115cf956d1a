// Events between GPUs of different processes of one host. CUDA builds only.
//
// An event is a number in host memory that both processes map and that only grows: recording writes the next number from the
// stream, waiting holds the stream until it is there (graphics interfaces call this a timeline semaphore). CUDA's own events
// can be shared too, but a stream that waits for one of a killed process waits for ever. The host can release these.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "comm/cuda/shared_host_memory.hpp"
#include "core/cuda/cuda_event.hpp"

namespace pipetrain {

// One process's end of a shared event, which either records or waits. Thread-safe.
class SharedEvent final : public CudaRecordable {
 public:
  static constexpr std::size_t bytes = 64;  // of the shared memory: one cache line

  // Takes the bytes [offset, offset + bytes), which must be 0.
  SharedEvent(std::shared_ptr<SharedHostMemory> memory, std::size_t offset) : memory_(std::move(memory)), offset_(offset) {}

  std::uint32_t recorded() const noexcept override { return reached_; }
  void expect(std::uint32_t record) noexcept override { reached_ = record; }
  // Lets all waits for records so far continue, although the records never come. Only for ending a run: the data is
  // missing. The other process may still overwrite the number with its own, so release again until nobody waits.
  void release() noexcept;

  bool query() const override;
  void synchronize() const override;
  cudaError_t record_on(cudaStream_t stream, int device) override;
  cudaError_t wait_on(cudaStream_t stream) const override;

 private:
  std::shared_ptr<SharedHostMemory> memory_;
  std::size_t offset_;
  std::atomic<std::uint32_t> reached_{0};
  std::atomic<bool> refused_{false}, released_{false};

  std::atomic<std::uint32_t>& value() const;
};

// After an abort: releases the events that this process waits for, repeatedly until it is destroyed, because the other
// process's GPU may still write older numbers.
class EventReleaser {
 public:
  explicit EventReleaser(std::vector<std::shared_ptr<SharedEvent>> events);
  ~EventReleaser();
  EventReleaser(const EventReleaser&) = delete;
  EventReleaser& operator=(const EventReleaser&) = delete;

 private:
  std::vector<std::shared_ptr<SharedEvent>> events_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::thread thread_;  // missing where no thread could be started: one release must suffice

  void run();
};

}  // namespace pipetrain
