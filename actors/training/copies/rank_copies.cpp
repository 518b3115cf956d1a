#include "actors/training/copies/rank_copies.hpp"

#include <utility>

#include "actors/training/copies/buddy_ring.hpp"

namespace pipetrain {
namespace {

CopyWay copy_way(const Device& device) { return device.id().kind == DeviceKind::cuda ? CopyWay::staged : CopyWay::direct; }

}  // namespace

RankCopies::RankCopies(Setup setup, std::vector<HeldState> source)
    : setup_(std::move(setup)),
      copier_(*setup_.device, std::move(source), copy_way(*setup_.device)),
      elements_(count_elements(copier_.source())) {
  setup_.copies->reserve(elements_);
}

BuddyRing* RankCopies::buddies() const { return setup_.buddies ? setup_.buddies->ring.get() : nullptr; }

void RankCopies::keep(std::int64_t step, std::int64_t applied_steps) {
  if (step_ == step) return;
  step_ = step;
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
