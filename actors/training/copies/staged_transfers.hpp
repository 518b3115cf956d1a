// Copies between device memory and host memory in pieces. The device itself reaches host memory that is locked. All other
// memory it reaches through two locked pieces: while it fills or empties one, threads of the host empty or fill the other.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "actors/ranks/worker.hpp"
#include "actors/training/copies/locked_chunks.hpp"
#include "core/buffer.hpp"
#include "core/device.hpp"

namespace pipetrain {

class StagedTransfers {
 public:
  static constexpr std::size_t most_locked_bytes = std::size_t{128} << 20;
  // Returns the bytes of both pieces for copies of this many bytes.
  static std::size_t locked_bytes(std::size_t bytes) { return 2 * piece_bytes(bytes); }

  struct Part {
    const void* source = nullptr;  // on the device
    void* target = nullptr;
    std::size_t bytes = 0;
  };

  // bytes: of all parts of the largest call of read(). locked: chunks of host memory, of which more may be locked at any
  // time; null: none. Throws Error(out_of_memory).
  StagedTransfers(Device& device, std::size_t bytes, std::shared_ptr<const LockedChunks> locked = {});
  // Waits for reads that are in progress.
  ~StagedTransfers();
  StagedTransfers(const StagedTransfers&) = delete;
  StagedTransfers& operator=(const StagedTransfers&) = delete;

  // Starts to copy parts of device memory, once those of the call before are copied. done: called on a thread of this object
  // once all are in their targets, never after a failure; may be empty. The sources must be complete. Does not block.
  void read(std::vector<Part> parts, std::function<void()> done);
  // Waits on the host until the sources of all calls of read() have been read, or reading has failed.
  void wait_until_read();
  // Waits on the host until all calls of read() have ended. Throws the failure of one.
  void wait();

  // Copies host memory to the device, and waits for that. No read() may be in progress. Throws the failure of the device.
  void write(void* target, const void* source, std::size_t bytes);

 private:
  struct Piece {
    Buffer memory;                 // locked
    std::unique_ptr<Event> moved;  // by the device
    std::vector<Part> parts;       // sources: in `memory`; without those that the device has copied to their targets
  };
  class Source;
  static std::size_t piece_bytes(std::size_t bytes);

  LockedChunks::Extent extent(const void* memory, std::size_t bytes) const;
  void copy(const std::vector<Part>& parts);
  void fill(Piece& piece, Source& source);
  void empty(const Piece& piece) const;
  void move_on_threads(unsigned threads, const std::vector<Part>& parts) const;
  void note(std::size_t StagedTransfers::*count);

  const std::shared_ptr<const LockedChunks> locked_;
  const std::size_t piece_bytes_;
  const unsigned loading_threads_;  // while the device computes nothing
  std::unique_ptr<Stream> stream_;
  Piece pieces_[2];
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t started_ = 0, read_ = 0, ended_ = 0;  // calls of read()
  std::exception_ptr failure_;
  Worker worker_{"copies"};  // last: its jobs use the members above
};

}  // namespace pipetrain
