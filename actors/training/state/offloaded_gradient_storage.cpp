#include "actors/training/state/offloaded_gradient_storage.hpp"

#include "model/parameters/arena_views.hpp"

namespace pipetrain {

OffloadedGradientStorage::OffloadedGradientStorage(const Setup& setup, OffloadStreams& streams, const Offload& offload)
    : GradientStorage(setup, Placement::whole_pages),
      outside_({setup.device, streams, offload.folder, setup.rank + ": offloaded gradients"},
               outside_gradients(setup.layout, setup.places.units(), setup.places.offloaded_ranges())),
      offloaded_(offloaded_setup(), outside_, slots()) {}

OffloadedGradients::Setup OffloadedGradientStorage::offloaded_setup() {
  const StatePlaces& places = setup().places;
  OffloadedGradients::Setup offloaded{setup().layout, places.units(), setup().device, setup().ops.stream(),
                                      places.offloaded_ranges()};
  if (is_replicated()) {
    offloaded.transfer = transfer();
    offloaded.sum = [this](Stream& transfer, std::size_t unit) { sum_unit(transfer, unit); };
  }
  return offloaded;
}

std::vector<void*> OffloadedGradientStorage::slots() const {
  const StatePlaces& places = setup().places;
  std::vector<void*> slots;
  for (std::size_t unit = 0; unit < places.units().size(); ++unit) {
    const bool leaves = leaves_with_gradients(setup().layout, places.units()[unit]);
    slots.push_back(leaves ? part(places.sums(unit)).data : nullptr);
  }
  return slots;
}

void OffloadedGradientStorage::begin_step() {
  GradientStorage::begin_step();
  offloaded_.begin_step();
}

void OffloadedGradientStorage::start_reduction(const Tensor& grads) {
  // Offloaded ones are summed when their block is closed.
  if (!offloaded_.holds(grads)) GradientStorage::start_reduction(grads);
}

void OffloadedGradientStorage::reduce(int chunk) {
  if (!is_replicated()) return;
  const StatePlaces& places = setup().places;
  offloaded_.sum(chunk);
  for (std::size_t i = 0; i < places.units().size(); ++i) {
    const ShardUnit& unit = places.units()[i];
    const bool stays = places.is_pooled(i) && !leaves_with_gradients(setup().layout, unit);
    if (stays && unit.chunk == chunk) reduction()->finish(setup().ops.stream(), part(places.sums(i)));
  }
  GradientStorage::reduce(chunk);
}

// Goes unit by unit, in the order in which offloaded ones are fetched.
void OffloadedGradientStorage::square_sums(const std::vector<CountedPart>& counted, const Tensor& sums) {
  std::size_t next = 0;
  for (const CountedPart& part : counted) {
    read(setup().places.unit_of(setup().layout.parameters[part.parameter]));
    pipetrain::square_sums({part}, setup().ops, arena(), span(sums, next, part.sums()));
    next += part.sums();
  }
  read({});
}

}  // namespace pipetrain
