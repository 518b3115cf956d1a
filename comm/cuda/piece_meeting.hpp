// The data that the ranks of piecewise transfers post for each other. CUDA builds only.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <vector>

#include "comm/cuda/cuda_shared_event.hpp"
#include "comm/cuda/far_memory.hpp"
#include "core/cuda/cuda_event.hpp"

namespace pipetrain {

// Calls are counted from 1. A rank may begin call n before it has ended call n - 1, but not before it has ended n - 2.
// Data posted for call n may be overwritten at call n + 4: by then every peer has ended call n, because the rank has
// sent its pieces of call n + 3, for which every peer had begun that call, and so ended n + 1.
constexpr std::size_t piece_calls_in_flight = 4;

// One rank's half of a call: the rank writes it before it increments the count, and its peers read it. Event 0 means that the
// target is free and, in a gather, that this rank's shard is there. Event k means that this rank's piece has reached the peer
// of step k.
struct PiecePost {
  Place target = 0;  // of the tensor into which the peers write their pieces
  std::array<std::uint32_t, max_cuda_group_ranks> records{};
};

// The posts of one rank, in memory that all ranks map.
struct PiecePosts {
  std::array<PiecePost, piece_calls_in_flight> posts;
  alignas(64) std::atomic<std::uint64_t> begun{0};  // calls whose target and event 0 are posted
  alignas(64) std::atomic<std::uint64_t> sent{0};   // calls whose other events are recorded
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

class PieceMeeting {
 public:
  struct Member {
    PiecePosts* posts = nullptr;
    std::array<std::vector<std::shared_ptr<CudaRecordable>>, piece_calls_in_flight> events;
  };

  // far: null where all ranks run in this process; a place is then an address. awaited: the events that other processes
  // record. memory: contains the members' posts.
  PieceMeeting(std::vector<Member> members, std::shared_ptr<FarMemory> far, std::vector<std::shared_ptr<SharedEvent>> awaited,
               std::shared_ptr<void> memory)
      : members_(std::move(members)), far_(std::move(far)), awaited_(std::move(awaited)), memory_(std::move(memory)) {}

  int size() const { return static_cast<int>(members_.size()); }
  PiecePosts& posts(int rank) { return *member(rank).posts; }
  PiecePost& post(int rank, std::uint64_t call) { return posts(rank).posts[call % piece_calls_in_flight]; }
  CudaRecordable& event(int rank, std::uint64_t call, int number) {
    return *member(rank).events[call % piece_calls_in_flight][static_cast<std::size_t>(number)];
  }

  // See FarMemory.
  Place place_of(const Tensor& tensor) { return far_ ? far_->place_of(tensor) : reinterpret_cast<Place>(tensor.data); }
  char* reach(int rank, Place place) const { return far_ ? far_->reach(rank, place) : reinterpret_cast<char*>(place); }

  // Waits until the count reaches `call`; returns false after an abort. Spins, because the peers are threads that do
  // the same work.
  bool wait(const std::atomic<std::uint64_t>& count, std::uint64_t call) const;

  void abort(const std::exception_ptr& cause);
  std::exception_ptr cause() const;

 private:
  std::vector<Member> members_;  // by rank
  std::shared_ptr<FarMemory> far_;
  std::vector<std::shared_ptr<SharedEvent>> awaited_;
  std::shared_ptr<void> memory_;
  std::atomic<bool> aborted_{false};
  mutable std::mutex mutex_;
  std::exception_ptr cause_;
  std::unique_ptr<EventReleaser> releaser_;

  Member& member(int rank) { return members_[static_cast<std::size_t>(rank)]; }
};

}  // namespace pipetrain
