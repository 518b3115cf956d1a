#include "actors/training/copies/buddy_ring.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace pipetrain {
namespace {

struct CopyHeader {
  std::int64_t step = 0, applied_steps = 0;
};

}  // namespace

std::size_t PassedCopies::bytes() const {
  std::size_t bytes = ranks.size() * sizeof(CopyHeader);
  for (const std::size_t count : elements) bytes += count * sizeof(float);
  return bytes;
}

BuddyRing::BuddyRing(Setup setup)
    : setup_(std::move(setup)),
      outgoing_(setup_.device->allocate_host(align_up(setup_.bytes), "copies for the buddy")),
      incoming_(setup_.device->allocate_host(align_up(setup_.bytes), "copies of the process before")),
      stream_(setup_.device->make_stream("buddies")) {}

BuddyRing::~BuddyRing() { finish_before_freeing(*stream_); }

void BuddyRing::copied(int rank, std::int64_t step) {
  {
    const std::lock_guard lock(mutex_);
    const bool passed = std::count(setup_.own.ranks.begin(), setup_.own.ranks.end(), rank) > 0;
    if (!passed || ++whole_[step] < setup_.own.ranks.size()) return;
    whole_.erase(step);
  }
  pass_on(step);
}

// A transfer that fails leaves `arrived_` as it is; the ranks' own work fails for the same reason.
void BuddyRing::pass_on(std::int64_t step) {
  const auto tensor = [this](const Buffer& memory) {
    return Tensor{memory.data(), {static_cast<std::int64_t>(setup_.bytes / sizeof(float))}};
  };
  stream_->host_callback([this, step] { pack(step); });
  setup_.ring->shift(*stream_, tensor(outgoing_), tensor(incoming_));
  stream_->host_callback([this, step] {
    if (stream_->failure()) return;
    unpack();
    const std::lock_guard lock(mutex_);
    arrived_ = step;
    changed_.notify_all();
  });
}

void BuddyRing::pack(std::int64_t step) {
  auto* next = static_cast<std::byte*>(outgoing_.data());
  for (const int rank : setup_.own.ranks) {
    const StateCopy* const copy = setup_.copies.at(rank)->of(step);
    const CopyHeader header{copy ? step : -1, copy ? copy->applied_steps() : 0};
    std::memcpy(next, &header, sizeof header);
    next += sizeof header;
    if (copy == nullptr) continue;
    std::memcpy(next, copy->values.data(), copy->values.size() * sizeof(float));
    next += copy->values.size() * sizeof(float);
  }
}

void BuddyRing::unpack() {
  const auto* next = static_cast<const std::byte*>(incoming_.data());
  for (std::size_t i = 0; i < setup_.received.ranks.size(); ++i) {
    CopyHeader header;
    std::memcpy(&header, next, sizeof header);
    next += sizeof header;
    const std::size_t elements = setup_.received.elements[i];
    StateCopy* const copy =
        header.step < 0 ? nullptr
                        : setup_.copies.at(setup_.received.ranks[i])->begin(header.step, header.applied_steps, elements);
    if (copy != nullptr) {
      std::memcpy(copy->values.data(), next, elements * sizeof(float));
      copy->set_whole();
    }
    next += elements * sizeof(float);
  }
}

void BuddyRing::wait(std::int64_t step) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return cause_ || arrived_ >= step; });
  if (arrived_ < step) std::rethrow_exception(cause_);
}

void BuddyRing::abort(std::exception_ptr cause) {
  setup_.ring->abort(cause);
  const std::lock_guard lock(mutex_);
  if (!cause_) cause_ = std::move(cause);
  changed_.notify_all();
}

}  // namespace pipetrain
