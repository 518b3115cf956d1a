#include "actors/engine/remote/remote_edges.hpp"

namespace pipetrain {
namespace {

std::unordered_map<const Slot*, int> numbered(const std::vector<SlotHandle>& slots) {
  std::unordered_map<const Slot*, int> numbers;
  for (const auto& slot : slots) numbers.emplace(slot.get(), static_cast<int>(numbers.size()));
  return numbers;
}

}  // namespace

RemoteQueueActor::RemoteQueueActor(caf::actor_config& config, Transport& transport, EdgeId edge)
    : caf::event_based_actor(config), transport_(transport), edge_(edge), numbers_(numbered(transport.mirrors(edge))) {}

caf::behavior RemoteQueueActor::make_behavior() {
  return {
      [this](Filled& filled) { transport_.deliver(edge_, numbers_.at(filled.slot.get()), filled.microbatch); },
  };
}

RemoteProducerActor::RemoteProducerActor(caf::actor_config& config, Transport& transport, EdgeId edge,
                                         const std::vector<SlotHandle>& slots)
    : caf::event_based_actor(config), transport_(transport), edge_(edge), numbers_(numbered(slots)) {}

caf::behavior RemoteProducerActor::make_behavior() {
  return {
      [this](Credit& credit) { transport_.give_credit(edge_, numbers_.at(credit.slot.get())); },
  };
}

void EdgeMailbox::open(caf::actor actor) {
  const std::lock_guard lock(mutex_);
  actor_ = std::move(actor);
}

void EdgeMailbox::close() { open(nullptr); }

}  // namespace pipetrain
