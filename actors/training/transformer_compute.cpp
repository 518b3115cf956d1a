#include "actors/training/transformer_compute.hpp"

#include <atomic>
#include <future>

namespace pipetrain {

using schedules::ActionKind;
using schedules::InputKind;

// A launch on its way through the ranks.
struct TransformerCompute::Running {
  Launch launch;
  std::atomic<std::size_t> to_enqueue, to_complete;
};

TransformerCompute::TransformerCompute(std::vector<RankSetup> setups, const InitialState& state) {
  ranks_.resize(setups.size());
  std::vector<std::future<void>> ready;
  for (std::size_t rank = 0; rank < setups.size(); ++rank) {
    const auto& id = setups[rank].id;
    workers_.push_back(std::make_unique<Worker>("w" + std::to_string(id.pp) + "r" + std::to_string(id.tp)));
    auto build = std::make_shared<std::packaged_task<void()>>([this, rank, &setups, &state] {
      ranks_[rank] = std::make_unique<RankCompute>(std::move(setups[rank]));
      ranks_[rank]->state().load(state);
    });
    ready.push_back(build->get_future());
    workers_.back()->post([build] { (*build)(); });
  }
  for (auto& one : ready) one.wait();
  for (auto& one : ready) one.get();
}

TransformerCompute::~TransformerCompute() = default;

std::vector<SlotHandle> TransformerCompute::make_slots(InputKind kind, int chunk, int count) {
  std::vector<SlotHandle> slots;
  for (int i = 0; i < count; ++i) {
    auto slot = std::make_shared<Slot>();
    for (auto& rank : ranks_) slot->lanes.push_back(rank->make_lane(kind, chunk));
    slots.push_back(std::move(slot));
  }
  return slots;
}

StageCompute::LaneSources TransformerCompute::lane_sources() const {
  LaneSources sources;
  for (const auto& rank : ranks_) {
    sources.devices.push_back(&rank->device());
    sources.ranks.push_back(rank->rank());
  }
  return sources;
}

void TransformerCompute::on_all_workers(const std::function<void(RankCompute&)>& job) {
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    workers_[rank]->post([this, &one = *ranks_[rank], job] {
      try {
        job(one);
      } catch (...) {
        one.stream().fail(std::current_exception());
        events_->failed(std::current_exception());
      }
    });
  }
}

void TransformerCompute::begin_step(const StepInfo& step) {
  on_all_workers([step](RankCompute& rank) { rank.begin_step(step); });
}

void TransformerCompute::verdict(const Verdict& verdict) {
  on_all_workers([verdict](RankCompute& rank) { rank.set_verdict(verdict); });
}

void TransformerCompute::launch(const Launch& launch) {
  auto running = std::make_shared<Running>();
  running->launch = launch;
  running->to_enqueue = running->to_complete = ranks_.size();
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    workers_[rank]->post([this, &one = *ranks_[rank], running] { issue(one, running); });
  }
}

void TransformerCompute::issue(RankCompute& rank, const std::shared_ptr<Running>& running) {
  try {
    rank.run(running->launch);
  } catch (...) {
    rank.stream().fail(std::current_exception());
  }
  // First "enqueued", then the callback that leads to "completed": the stage must hear them in this order.
  if (--running->to_enqueue == 0) events_->enqueued(running->launch.action);
  rank.call_back([this, &rank, running] { finished(rank, running); });
}

void TransformerCompute::finished(RankCompute& rank, const std::shared_ptr<Running>& running) {
  if (auto cause = rank.failure()) events_->failed(cause);
  if (--running->to_complete > 0) return;
  StageResult result;
  if (running->launch.action.kind == ActionKind::norm) {
    for (const auto& one : ranks_) one->add_result(result);
  }
  events_->completed(running->launch.action, {}, std::move(result));
}

std::vector<DeviceActions> TransformerCompute::add_times(StageTrace& trace) {
  std::vector<DeviceActions> devices;
  for (const auto& rank : ranks_) devices.push_back(rank->trace());
  const DeviceActions& measured = devices.front();
  std::size_t next = 0;  // both are in nearly the same order
  for (TracedAction& traced : trace.actions) {
    for (std::size_t looked = 0; looked < measured.size(); ++looked) {
      const DeviceAction& one = measured[(next + looked) % measured.size()];
      if (one.action != traced.action) continue;
      traced.times = one.times;
      next += looked + 1;
      break;
    }
  }
  return devices;
}

std::vector<MemoryUse> TransformerCompute::memory() const {
  std::vector<MemoryUse> uses;
  for (const auto& rank : ranks_) uses.push_back(rank->memory());
  return uses;
}

void TransformerCompute::read_state(std::int64_t number, const StatePart& part, float* out) {
  const auto index = static_cast<std::size_t>(part.tp_rank);
  RankCompute& rank = *ranks_.at(index);
  workers_[index]->post([this, &rank, number, part, out] {
    try {
      rank.state().read(part, out);
      events_->state_read(number);
    } catch (...) {
      events_->failed(std::current_exception());
    }
  });
}

std::size_t TransformerCompute::state_elements(const StatePart& part) const {
  static_cast<void>(ranks_.at(static_cast<std::size_t>(part.tp_rank))->state().holder(part));
  return part.elements;
}

void TransformerCompute::wait_until_idle() noexcept {
  for (const auto& rank : ranks_) rank->wait_until_idle();
}

void TransformerCompute::abort(std::exception_ptr cause) noexcept {
  for (auto& rank : ranks_) rank->fail(cause);
}

}  // namespace pipetrain
