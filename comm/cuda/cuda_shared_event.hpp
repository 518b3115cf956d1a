// Events between GPUs of different processes of one host. CUDA builds only.
//
// An event is a number in host memory that both processes map, and that only grows: recording writes the next one from the
// stream, waiting holds the stream until it is there (what graphics interfaces call a timeline semaphore). CUDA's own events
// can be shared too, but a stream that waits for one whose process was killed waits for ever. These the host can release.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "core/cuda_event.hpp"

namespace pipetrain {

// The numbers: shared memory that the GPUs of this process can reach. All methods are thread-safe.
class SharedCounters {
 public:
  // Makes `count` of them, all 0, or opens what another process of this host has made. The device is one of this process.
  // Throws Error(unavailable).
  static std::shared_ptr<SharedCounters> create(std::size_t count, int device);
  static std::shared_ptr<SharedCounters> open(const std::string& name, std::size_t count, int device);
  ~SharedCounters();
  SharedCounters(const SharedCounters&) = delete;
  SharedCounters& operator=(const SharedCounters&) = delete;

  const std::string& name() const { return name_; }
  std::size_t count() const { return count_; }
  // Nobody can open them any more: called once all have, so that nothing is left behind when processes die.
  void unlink() noexcept;

  std::atomic<std::uint32_t>& value(std::size_t index) const;
  void* device_address(std::size_t index) const;

 private:
  SharedCounters(std::string name, std::size_t count) : name_(std::move(name)), count_(count) {}
  void map(int file, int device);

  std::string name_;
  std::size_t count_;
  char* host_ = nullptr;
  char* device_ = nullptr;
  bool registered_ = false, linked_ = false;
};

// One process's end of such an event: where it records, or where it waits.
class SharedEvent final : public CudaRecordable {
 public:
  SharedEvent(std::shared_ptr<SharedCounters> counters, std::size_t index) : counters_(std::move(counters)), index_(index) {}

  // Where it records: how often it has been; goes to the other process with the news of the record.
  std::uint32_t recorded() const noexcept { return reached_; }
  // Where it waits: the record that wait(), query() and synchronize() speak of from now on.
  void expect(std::uint32_t record) noexcept { reached_ = record; }
  // Lets whatever waits for any record so far go on, although it never comes. For an end only: what was to be there is not. The
  // other process may still overwrite it with its own count, so it is said again until nobody waits.
  void release() noexcept;

  bool query() const override;
  void synchronize() const override;
  cudaError_t record_on(cudaStream_t stream, int device) override;
  cudaError_t wait_on(cudaStream_t stream) const override;

 private:
  std::shared_ptr<SharedCounters> counters_;
  std::size_t index_;
  std::atomic<std::uint32_t> reached_{0};
  std::atomic<bool> refused_{false}, released_{false};
};

}  // namespace pipetrain
