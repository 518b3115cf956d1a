#include "actors/ranks/ranked_compute.hpp"

#include <atomic>
#include <future>
#include <utility>

namespace pipetrain {

// A launch that the ranks have not all completed.
struct RankedCompute::Running {
  Launch launch;
  std::optional<Launch> second;  // of a braid
  std::atomic<std::size_t> to_enqueue, to_complete;
};

RankedCompute::RankedCompute(const std::vector<RankMaker>& ranks) : ranks_(ranks.size()) {
  std::vector<std::future<void>> ready;
  for (std::size_t index = 0; index < ranks.size(); ++index) {
    const MeshCoordinate& id = ranks[index].id;
    workers_.push_back(std::make_unique<Worker>("w" + std::to_string(id.pp) + "r" + std::to_string(id.tp) +
                                                (id.cp > 0 ? "c" + std::to_string(id.cp) : "") +
                                                (id.ep > 0 ? "e" + std::to_string(id.ep) : "")));
    auto build = std::make_shared<std::packaged_task<void()>>([this, index, &ranks] { ranks_[index] = ranks[index].make(); });
    ready.push_back(build->get_future());
    workers_.back()->post([build] { (*build)(); });
  }
  for (auto& one : ready) one.wait();
  for (auto& one : ready) one.get();
}

RankedCompute::~RankedCompute() = default;

std::vector<SlotHandle> RankedCompute::make_slots(schedules::InputKind kind, int chunk, int count) {
  std::vector<SlotHandle> slots;
  for (int i = 0; i < count; ++i) {
    auto slot = std::make_shared<Slot>();
    for (auto& rank : ranks_) slot->lanes.push_back(rank->make_lane(kind, chunk));
    slots.push_back(std::move(slot));
  }
  return slots;
}

StageCompute::LaneSources RankedCompute::lane_sources() const {
  LaneSources sources;
  for (const auto& rank : ranks_) {
    sources.devices.push_back(&rank->device());
    sources.ranks.push_back(rank->rank());
  }
  return sources;
}

void RankedCompute::on_all_workers(const std::function<void(ComputeRank&)>& job) {
  for (std::size_t index = 0; index < ranks_.size(); ++index) {
    workers_[index]->post([this, &one = *ranks_[index], job] {
      try {
        if (!one.is_broken()) job(one);
      } catch (...) {
        one.break_off(std::current_exception());
        events_->failed(std::current_exception());
      }
    });
  }
}

void RankedCompute::begin_step(const StepInfo& step) {
  on_all_workers([step](ComputeRank& rank) { rank.begin_step(step); });
}

void RankedCompute::begin_early(const StepInfo& coming) {
  on_all_workers([coming](ComputeRank& rank) { rank.begin_early(coming); });
}

void RankedCompute::launch(const Launch& launch) {
  if (launch.begins_braid) {
    braided_ = launch;
    return;
  }
  auto running = std::make_shared<Running>();
  running->launch = launch;
  if (braided_) {
    running->second = std::exchange(running->launch, std::move(*braided_));
    braided_.reset();
  }
  running->to_enqueue = running->to_complete = ranks_.size();
  for (std::size_t index = 0; index < ranks_.size(); ++index) {
    workers_[index]->post([this, &one = *ranks_[index], running] { issue(one, running); });
  }
}

void RankedCompute::issue(ComputeRank& rank, const std::shared_ptr<Running>& running) {
  try {
    if (!rank.is_broken()) running->second ? rank.run_braid(running->launch, *running->second) : rank.run(running->launch);
  } catch (...) {
    rank.break_off(std::current_exception());
  }
  // The stage must receive "enqueued" before the callback that leads to "completed".
  if (--running->to_enqueue == 0) {
    events_->enqueued(running->launch.action);
    if (running->second) events_->enqueued(running->second->action);
  }
  rank.streams().call_back([this, &rank, running] { finished(rank, running); });
}

void RankedCompute::finished(ComputeRank& rank, const std::shared_ptr<Running>& running) {
  if (auto cause = rank.streams().failure()) events_->failed(cause);
  if (--running->to_complete > 0) return;
  StageResult result;
  for (const auto& one : ranks_) one->add_result(running->launch.action, result);
  events_->completed(running->launch.action, {}, std::move(result));
  if (running->second) events_->completed(running->second->action, {}, {});
}

void RankedCompute::abort(std::exception_ptr cause) noexcept {
  for (auto& rank : ranks_) rank->fail(cause);
}

void RankedCompute::wait_until_idle() noexcept {
  for (const auto& rank : ranks_) rank->wait_until_idle();
}

}  // namespace pipetrain
