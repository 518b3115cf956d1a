#include "actors/engine/feeder.hpp"

#include <algorithm>
#include <utility>

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
        // The previous message may have announced this step already.
        if (!announced_ || *announced_ != message.step.step) begin(message.step);
        announced_.reset();
        if (message.coming) {
          announced_ = message.coming->step;
          begin(*message.coming);
        }
        pump();
      },
      [this](Credit& credit) {
        for (auto& outlet : outlets_) {
          if (outlet.kind == credit.kind) outlet.credits.push_back(std::move(credit.slot));
        }
        pump();
      },
      [this](Abort&) { is_over_ = true; },
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
    if (outlet.step == steps_.size() || outlet.credits.empty()) continue;
    if (found == nullptr || std::pair(outlet.step, outlet.next) < std::pair(found->step, found->next)) found = &outlet;
  }
  return found;
}

void FeederActor::begin(const StepInfo& step) {
  if (!outlets_.empty()) steps_.push_back(step);
}

void FeederActor::end_filled_steps() {
  while (!steps_.empty() && std::all_of(outlets_.begin(), outlets_.end(), [](const Outlet& one) { return one.step > 0; })) {
    const StepInfo filled = std::move(steps_.front());
    steps_.pop_front();
    for (auto& outlet : outlets_) --outlet.step;
    source_->look_ahead(filled);
  }
}

void FeederActor::pump() {
  while (Outlet* outlet = is_over_ ? nullptr : next_outlet()) {
    const StepInfo& step = steps_[outlet->step];
    SlotHandle slot = std::move(outlet->credits.front());
    outlet->credits.pop_front();
    try {
      source_->fill(outlet->kind, step, outlet->next, *slot);
    } catch (...) {
      is_over_ = true;
      Failure cause = failure_of(std::current_exception());
      cause.where = "the data of replica " + std::to_string(replica_);
      send(supervisor_, Failed{std::move(cause)});
      return;
    }
    send(outlet->queue, Filled{outlet->next, std::move(slot)});
    if (++outlet->next < step.microbatches) continue;
    outlet->next = 0;
    ++outlet->step;
    end_filled_steps();
  }
}

}  // namespace pipetrain
