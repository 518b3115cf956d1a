#include "comm/cuda/piece_meeting.hpp"

#include <new>
#include <thread>

#include "comm/cuda/cuda_pieces.hpp"
#include "core/buffer.hpp"

namespace pipetrain {

bool PieceMeeting::wait(const std::atomic<std::uint64_t>& count, std::uint64_t call) const {
  constexpr int patience = 4096;
  for (int spins = 0; count.load(std::memory_order_acquire) < call; ++spins) {
    if (aborted_.load(std::memory_order_relaxed)) return false;
    if (spins > patience) std::this_thread::yield();
  }
  return true;
}

void PieceMeeting::abort(const std::exception_ptr& cause) {
  const std::lock_guard lock(mutex_);
  if (cause_) return;
  cause_ = cause;
  aborted_ = true;
  if (!awaited_.empty()) releaser_ = std::make_unique<EventReleaser>(awaited_);
}

std::exception_ptr PieceMeeting::cause() const {
  const std::lock_guard lock(mutex_);
  return cause_;
}

void abort(PieceMeeting& meeting, const std::exception_ptr& cause) { meeting.abort(cause); }

std::shared_ptr<PieceMeeting> make_piece_meeting(const std::vector<Device*>& devices) {
  auto posts = std::make_shared<std::vector<PiecePosts>>(devices.size());
  std::vector<PieceMeeting::Member> members;
  for (const Device* device : devices) {
    PieceMeeting::Member& member = members.emplace_back();
    member.posts = &(*posts)[members.size() - 1];
    for (auto& events : member.events)
      for (std::size_t i = 0; i < devices.size(); ++i) events.push_back(std::make_shared<CudaEvent>(device->id().index, false));
  }
  return std::make_shared<PieceMeeting>(std::move(members), nullptr, std::vector<std::shared_ptr<SharedEvent>>(),
                                        std::move(posts));
}

namespace {

constexpr std::size_t events_offset = (sizeof(PiecePosts) + SharedEvent::bytes - 1) / SharedEvent::bytes * SharedEvent::bytes;

}  // namespace

std::size_t far_piece_bytes(int ranks) {
  return events_offset + piece_calls_in_flight * static_cast<std::size_t>(ranks) * SharedEvent::bytes;
}

// Every rank has its own events to wait for, because an event stores the record that it waits for.
std::shared_ptr<PieceMeeting> make_far_piece_meeting(int rank, const std::vector<std::shared_ptr<SharedHostMemory>>& posts,
                                                     std::shared_ptr<FarMemory> far) {
  std::vector<PieceMeeting::Member> members;
  std::vector<std::shared_ptr<SharedEvent>> awaited;
  for (const auto& memory : posts) {
    PieceMeeting::Member& member = members.emplace_back();
    member.posts = std::launder(reinterpret_cast<PiecePosts*>(memory->host()));  // all zeros, its initial state
    std::size_t offset = events_offset;
    for (auto& events : member.events) {
      for (std::size_t i = 0; i < posts.size(); ++i, offset += SharedEvent::bytes) {
        const auto event = std::make_shared<SharedEvent>(memory, offset);
        events.push_back(event);
        if (members.size() != static_cast<std::size_t>(rank) + 1) awaited.push_back(event);
      }
    }
  }
  return std::make_shared<PieceMeeting>(std::move(members), std::move(far), std::move(awaited),
                                        std::make_shared<std::vector<std::shared_ptr<SharedHostMemory>>>(posts));
}

}  // namespace pipetrain
