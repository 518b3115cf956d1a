#include "actors/training/copies/rank_copies.hpp"

#include <cstdio>
#include <exception>
#include <utility>

#include "actors/training/copies/buddy_ring.hpp"

namespace pipetrain {
namespace {

CopyWay copy_way(const Device& device) { return device.id().kind == DeviceKind::cuda ? CopyWay::staged : CopyWay::direct; }

// Reserves the copies' memory, and returns the chunks of it that the device can lock; null where it need not.
std::shared_ptr<LockedChunks> reserve(const RankCopies::Setup& setup, std::size_t elements) {
  setup.copies->reserve(elements);
  return copy_way(*setup.device) == CopyWay::staged ? setup.copies->locked() : nullptr;
}

}  // namespace

RankCopies::RankCopies(Setup setup, std::vector<HeldState> source)
    : setup_(std::move(setup)),
      elements_(count_elements(source)),
      locked_(reserve(setup_, elements_)),
      copier_(*setup_.device, std::move(source), copy_way(*setup_.device), locked_) {}

RankCopies::~RankCopies() { ends_ = true; }

void RankCopies::begin_locking() {
  if (locked_ && !locking_) locking_.emplace("locking").post([this] { lock_chunks(); });
}

void RankCopies::lock_chunks() {
  try {
    while (!ends_ && locked_->lock_next(*setup_.device)) {
    }
  } catch (const std::exception& failure) {
    std::fprintf(
        stderr,
        "elastic takeover: rank %d's copies go on through staging memory, which makes steps longer, since the GPU cannot "
        "write to the memory that processes share: %s\n",
        setup_.rank, failure.what());
  }
}

BuddyRing* RankCopies::buddies() const { return setup_.buddies ? setup_.buddies->ring.get() : nullptr; }

void RankCopies::keep(std::int64_t step, std::int64_t applied_steps) {
  if (step_ == step) return;
  step_ = step;
  begin_locking();
  const auto pass_on = [ring = buddies(), rank = setup_.rank, step] {
    if (ring != nullptr) ring->copied(rank, step);
  };
  StateCopy* const copy = setup_.copies->begin(step, applied_steps, elements_);
  if (copy == nullptr) return pass_on();
  copier_.copy(copy->values.data(), [copies = setup_.copies, copy, pass_on] {
    copy->set_whole();
    pass_on();
  });
}

// Other processes have what is in shared memory.
void RankCopies::wait_until_held() {
  if (setup_.copies->is_shared()) copier_.wait();
  if (buddies() != nullptr) buddies()->wait(step_);
}

}  // namespace pipetrain
