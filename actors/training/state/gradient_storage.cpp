#include "actors/training/state/gradient_storage.hpp"

#include <cstdint>
#include <utility>

#include "actors/training/offload/offload_storage.hpp"
#include "model/parameters/arena_views.hpp"

namespace pipetrain {

GradientStorage::GradientStorage(const Setup& setup, Placement placement) : setup_(setup) {
  constexpr std::uintptr_t page = OffloadStorage::granularity;
  const bool aligned = placement == Placement::whole_pages;
  const std::size_t elements = setup_.places.grads() + (aligned ? page / sizeof(float) : 0);
  memory_ = setup_.device.allocate(align_up(elements * size_of(setup_.type)), setup_.rank + ": gradients");
  const auto begin = reinterpret_cast<std::uintptr_t>(memory_.data());
  const std::uintptr_t first = aligned ? (begin + page - 1) / page * page : begin;
  arena_ = {reinterpret_cast<void*>(first), {static_cast<std::int64_t>(setup_.places.grads())}, setup_.type};
  if (setup_.replicas) make_reduction(!aligned);
  // Gaps between tensors are summed over replicas, too. This comes last: nothing may fail while the stream writes to
  // memory that would then be freed.
  setup_.ops.stream().zero(arena_);
  if (compressed_) compressed_->clear(setup_.ops.stream());
}

// opens_units: units that share memory wait for each other here; offloaded ones, which share slots, do not need that.
void GradientStorage::make_reduction(bool opens_units) {
  SumOverReplicas sum = sum_for_all(setup_.replicas);
  const StatePlaces& places = setup_.places;
  if (places.is_sharded()) {
    std::vector<OwnerSums::Unit> units;
    for (std::size_t i = 0; i < places.units().size(); ++i)
      units.push_back({places.units()[i], part(places.sums(i)), part(places.own_sums(i)), places.is_pooled(i) && opens_units});
    owner_sums_ = std::make_shared<OwnerSums>(setup_.device, setup_.replicas, std::move(units));
    sum = [owners = owner_sums_](Stream& stream, const Tensor& grads) { owners->sum(stream, grads); };
  }
  if (setup_.compression.code != BlockCode::none) {
    compressed_ = std::make_unique<CompressedGradients>(places, setup_.compression, setup_.device, setup_.ops, setup_.replicas,
                                                        setup_.rank);
    sum = compressed_->over(arena_, std::move(sum));
  }
  reduction_ = std::make_unique<GradientReduction>(setup_.device, std::move(sum), setup_.transfer);
}

Tensor GradientStorage::part(const Region& region) const { return span(arena_, region.begin, region.size()); }

void GradientStorage::add_errors(std::vector<HeldState>& states) const {
  if (!compressed_) return;
  for (const CompressedGradients::Errors& part : compressed_->errors())
    states.push_back({part.state, part.held.parameter, {part.held.begin, part.held.end}, part.values});
}

void GradientStorage::begin_step() {
  if (reduction_) reduction_->begin_step();
}

void GradientStorage::reduce(int chunk) {
  if (reduction_) reduction_->finish(setup_.ops.stream(), part(setup_.places.chunk_grads(chunk)));
}

void GradientStorage::square_sums(const std::vector<CountedPart>& counted, const Tensor& sums) {
  pipetrain::square_sums(counted, setup_.ops, arena_, sums);
}

void GradientStorage::sum_unit(Stream& transfer, std::size_t unit) {
  if (owner_sums_) return owner_sums_->sum_unit(transfer, unit);
  setup_.replicas->all_reduce(transfer, part(setup_.places.sums(unit)), Reduction::sum);
}

}  // namespace pipetrain
