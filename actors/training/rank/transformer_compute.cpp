#include "actors/training/rank/transformer_compute.hpp"

#include <atomic>
#include <mutex>
#include <optional>
#include <utility>

#include "actors/training/checkpoint/kept_states.hpp"
#include "actors/training/checkpoint/rank_file.hpp"
#include "actors/training/copies/copy_request.hpp"

namespace pipetrain {
namespace {

std::vector<RankedCompute::RankMaker> rank_makers(std::vector<RankSetup>& setups, const InitialState& state) {
  std::vector<RankedCompute::RankMaker> makers;
  for (RankSetup& setup : setups) {
    makers.push_back({setup.id, [&setup, &state] {
                        auto rank = std::make_unique<RankCompute>(std::move(setup));
                        rank->state().load_or_continue(state);
                        return rank;
                      }});
  }
  return makers;
}

}  // namespace

TransformerCompute::TransformerCompute(std::vector<RankSetup> setups, const InitialState& state)
    : RankedCompute(rank_makers(setups, state)) {}

std::vector<std::size_t> TransformerCompute::copy_elements() {
  std::vector<std::size_t> elements;
  for (std::size_t index = 0; index < ranks(); ++index) elements.push_back(rank(index).state().copies()->elements());
  return elements;
}

void TransformerCompute::verdict(const Verdict& verdict) {
  on_all_workers([verdict](ComputeRank& rank) { static_cast<RankCompute&>(rank).set_verdict(verdict); });
}

std::vector<DeviceActions> TransformerCompute::add_times(StageTrace& trace) {
  std::vector<DeviceActions> devices;
  for (std::size_t index = 0; index < ranks(); ++index) devices.push_back(rank(index).trace());
  const DeviceActions& measured = devices.front();
  std::size_t next = 0;  // both have nearly the same order
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
  for (std::size_t index = 0; index < ranks(); ++index) uses.push_back(rank(index).memory());
  return uses;
}

void TransformerCompute::read_state(std::int64_t number, const StatePart& part, float* out) {
  const auto index = static_cast<std::size_t>(part.rank);
  worker(index).post([this, &rank = rank(index), number, part, out] {
    try {
      rank.state().read(part, out);
      events().state_read(number);
    } catch (...) {
      events().failed(std::current_exception());
    }
  });
}

std::size_t TransformerCompute::state_elements(const StatePart& part) const {
  rank(static_cast<std::size_t>(part.rank)).state().check_holds(part);
  return part.elements;
}

// A snapshot of the ranks' states that is being written to the disk, or copies of them.
struct TransformerCompute::Saving {
  std::int64_t number;
  std::string where;
  std::optional<CopyRequest> copies = {};
  std::atomic<std::size_t> to_take{0};
  std::mutex mutex = {};
  std::exception_ptr failure = {};
};

void TransformerCompute::save_state(std::int64_t number, const std::string& where) {
  const auto saving = std::make_shared<Saving>();
  saving->number = number;
  saving->where = where;
  saving->copies = copy_request_of(where);
  if (saving->copies) {
    save(
        saving, [](RankCompute& one, const Saving& of) { one.keep_copy(of.copies->step, of.copies->record); },
        &TransformerCompute::wait_for_copies);
  } else {
    save(
        saving, [](RankCompute& one, const Saving&) { one.state().snapshot().take(); },
        where == KeptStates::target() ? &TransformerCompute::keep : &TransformerCompute::write);
  }
}

void TransformerCompute::save(std::shared_ptr<Saving> saving, OnRank begin,
                              std::string (TransformerCompute::*end)(const Saving&)) {
  saving->to_take = ranks();
  const auto finish = [this, saving, end] {
    try {
      if (saving->failure) std::rethrow_exception(saving->failure);
      events().state_saved(saving->number, (this->*end)(*saving), nullptr);
    } catch (...) {
      events().state_saved(saving->number, "", std::current_exception());
    }
  };
  for (std::size_t index = 0; index < ranks(); ++index) {
    worker(index).post([this, &one = rank(index), saving, begin, finish] {
      try {
        begin(one, *saving);
      } catch (...) {
        const std::lock_guard lock(saving->mutex);
        saving->failure = std::current_exception();
      }
      if (--saving->to_take == 0) saver_.post(finish);
    });
  }
}

std::string TransformerCompute::write(const Saving& saving) {
  std::vector<RankFileReport> reports;
  for (std::size_t index = 0; index < ranks(); ++index) {
    StateSnapshot& snapshot = rank(index).state().snapshot();
    snapshot.wait();
    if (!snapshot.pieces().empty())
      reports.push_back(write_rank_file(saving.where, rank(index).rank(), rank(index).layout(), snapshot.pieces()));
  }
  return text_of(reports);
}

std::string TransformerCompute::keep(const Saving&) {
  for (std::size_t index = 0; index < ranks(); ++index) rank(index).state().keep_snapshot();
  return "";
}

std::string TransformerCompute::wait_for_copies(const Saving&) {
  for (std::size_t index = 0; index < ranks(); ++index) {
    RankCopies* const copies = rank(index).state().copies();
    if (copies == nullptr) continue;
    copies->wait_for_copy();
    copies->wait_until_held();
  }
  return "";
}

}  // namespace pipetrain
