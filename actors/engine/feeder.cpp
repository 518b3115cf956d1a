#include "actors/engine/feeder.hpp"

#include <algorithm>

namespace pipetrain {

using schedules::InputKind;

FeederActor::FeederActor(caf::actor_config& config, int replica, std::shared_ptr<InputSource> source, caf::actor tokens,
                         caf::actor targets, caf::actor supervisor)
    : caf::event_based_actor(config),
      replica_(replica),
      is_brief_(source->fills_at_once()),
      source_(std::move(source)),
      supervisor_(std::move(supervisor)) {
  if (tokens) outlets_.push_back({InputKind::activation, std::move(tokens)});
  if (targets) outlets_.push_back({InputKind::target, std::move(targets)});
}

caf::behavior FeederActor::make_behavior() {
  return {
      [this](BeginStep& message) {
        step_ = message.step;
        in_step_ = true;
        for (auto& outlet : outlets_) outlet.next = 0;
        pump();
      },
      [this](Credit& credit) {
        for (auto& outlet : outlets_) {
          if (outlet.kind == credit.kind) outlet.credits.push_back(std::move(credit.slot));
        }
        pump();
      },
      [this](Abort&) { in_step_ = false; },
  };
}

void FeederActor::on_exit() {
  for (auto& outlet : outlets_) outlet.queue = nullptr;
  supervisor_ = nullptr;
  source_.reset();
}

FeederActor::Outlet* FeederActor::next_outlet() {
  Outlet* found = nullptr;
  for (auto& outlet : outlets_) {
    if (outlet.next == step_.microbatches || outlet.credits.empty()) continue;
    if (found == nullptr || outlet.next < found->next) found = &outlet;
  }
  return found;
}

bool FeederActor::all_filled() const {
  return std::all_of(outlets_.begin(), outlets_.end(), [&](const Outlet& one) { return one.next == step_.microbatches; });
}

void FeederActor::pump() {
  if (!in_step_) return;
  while (Outlet* outlet = next_outlet()) {
    SlotHandle slot = std::move(outlet->credits.front());
    outlet->credits.pop_front();
    try {
      source_->fill(outlet->kind, step_, outlet->next, *slot);
    } catch (...) {
      in_step_ = false;
      Failure cause = failure_of(std::current_exception());
      cause.where = "the data of replica " + std::to_string(replica_);
      send(supervisor_, Failed{std::move(cause)});
      return;
    }
    send(outlet->queue, Filled{outlet->next, std::move(slot)});
    ++outlet->next;
  }
  if (!all_filled()) return;
  in_step_ = false;
  source_->look_ahead(step_);
}

}  // namespace pipetrain
