#include "actors/training/copies/agreement.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "actors/training/copies/buddy_order.hpp"

namespace pipetrain {
namespace {

constexpr int nobody = -1;

// Returns the process that has the state of this rank after the step; `wanted` if it does.
std::optional<CopySource> source_of(const std::vector<Holdings>& processes, const std::vector<int>& equals, std::int64_t step,
                                    int wanted) {
  std::optional<CopySource> found;
  for (int process = 0; process < std::ssize(processes); ++process) {
    for (const int rank : equals) {
      const auto& copies = processes[static_cast<std::size_t>(process)].copies;
      const auto copy = copies.find(rank);
      if (copy == copies.end() || std::count(copy->second.begin(), copy->second.end(), step) == 0) continue;
      if (!found || (process == wanted && found->process != wanted)) found = CopySource{process, rank};
    }
  }
  return found;
}

// A process that ends may leave its copy of a state in memory that it shares before the others have received the record of that
// step. Where nobody has records, none is needed.
bool is_recorded(const std::vector<Holdings>& processes, std::int64_t step) {
  const auto has = [&](const Holdings& own) { return own.records.contains(step); };
  const auto has_none = [](const Holdings& own) { return own.records.empty(); };
  return std::any_of(processes.begin(), processes.end(), has) || std::all_of(processes.begin(), processes.end(), has_none);
}

// Returns the newest step after which every state is held and the progress is recorded, or no value: `missing` then names a
// rank without one after the newest step.
std::optional<std::int64_t> newest_step(const std::vector<Holdings>& processes, const std::vector<std::vector<int>>& equals,
                                        int* missing) {
  std::set<std::int64_t, std::greater<>> steps;
  for (const Holdings& holdings : processes)
    for (const auto& [rank, own] : holdings.copies) steps.insert(own.begin(), own.end());
  std::optional<int> lacks;
  for (const std::int64_t step : steps) {
    if (!is_recorded(processes, step)) continue;
    const auto lost = std::find_if(equals.begin(), equals.end(),
                                   [&](const auto& ranks) { return !source_of(processes, ranks, step, nobody); });
    if (lost == equals.end()) return step;
    if (!lacks) lacks = static_cast<int>(lost - equals.begin());
  }
  if (missing != nullptr) *missing = lacks.value_or(0);
  return {};
}

// Returns the process that takes a rank: one that runs no rank with an equal state before those that do, so that the
// state stays in two processes, and then the one with the fewest ranks.
int taker_of(int processes, const std::vector<int>& equals, const std::vector<int>& process_of) {
  const auto cost = [&](int process) {
    const bool runs_equal = std::any_of(equals.begin(), equals.end(),
                                        [&](int rank) { return process_of[static_cast<std::size_t>(rank)] == process; });
    return std::pair(runs_equal, std::count(process_of.begin(), process_of.end(), process));
  };
  int taker = 0;
  for (int process = 1; process < processes; ++process)
    if (cost(process) < cost(taker)) taker = process;
  return taker;
}

// Deals the lost ranks, stage by stage.
void deal_lost(int processes, const Mesh& mesh, const std::vector<std::vector<int>>& equals, Agreement& agreement) {
  for (const std::vector<int>& stage : mesh.groups({Axis::cp, Axis::ep, Axis::tp, Axis::part})) {
    std::optional<int> taker;
    for (const int rank : stage) {
      const auto at = static_cast<std::size_t>(rank);
      if (agreement.process_of[at] != nobody) continue;
      if (!taker) taker = taker_of(processes, equals[at], agreement.process_of);
      agreement.process_of[at] = *taker;
      agreement.lost.push_back(rank);
    }
  }
}

// Returns the ranks that one process must have together.
std::vector<std::vector<int>> dealt_together(const Mesh& mesh, bool whole_stages) {
  if (whole_stages) return mesh.groups({Axis::cp, Axis::ep, Axis::tp, Axis::part});
  std::vector<std::vector<int>> ranks;
  for (int rank = 0; rank < mesh.size(); ++rank) ranks.push_back({rank});
  return ranks;
}

// Moves ranks to processes that have none, until all but the spare processes have some.
void share_out(int processes, int spares, const std::vector<std::vector<int>>& together, Agreement& agreement) {
  const auto process_of = [&](const std::vector<int>& ranks) {
    return agreement.process_of[static_cast<std::size_t>(ranks.front())];
  };
  const auto count_of = [&](int process) {
    return std::count_if(together.begin(), together.end(), [&](const auto& ranks) { return process_of(ranks) == process; });
  };
  for (;;) {
    int idle = nobody, most = 0, holders = 0;
    for (int process = processes - 1; process >= 0; --process) {
      if (count_of(process) == 0) idle = process;
      if (count_of(process) >= count_of(most)) most = process;
      holders += count_of(process) > 0 ? 1 : 0;
    }
    if (idle == nobody || holders >= processes - spares || count_of(most) < 2) return;
    auto left = count_of(most) / 2;
    for (auto ranks = together.rbegin(); left > 0; ++ranks) {
      if (process_of(*ranks) != most) continue;
      for (const int rank : *ranks) {
        agreement.process_of[static_cast<std::size_t>(rank)] = idle;
        if (std::count(agreement.lost.begin(), agreement.lost.end(), rank) == 0) agreement.moved.push_back(rank);
      }
      --left;
    }
  }
}

}  // namespace

Bytes to_bytes(const Holdings& holdings) {
  WireWriter out;
  out.list(holdings.runs, [&](int rank) { out.number(static_cast<std::int32_t>(rank)); });
  out.list(holdings.copies, [&](const auto& copy) {
    out.number(static_cast<std::int32_t>(copy.first));
    out.list(copy.second, [&](std::int64_t step) { out.number(step); });
  });
  out.list(holdings.records, [&](const auto& record) {
    out.number(record.first);
    out.bytes(record.second);
  });
  return std::move(out).data();
}

Holdings read_holdings(const Bytes& bytes, int ranks) {
  WireReader in(bytes);
  const auto read_rank = [&] {
    const auto rank = in.number<std::int32_t>();
    if (rank < 0 || rank >= ranks) WireReader::refuse("a rank that does not exist");
    return static_cast<int>(rank);
  };
  Holdings holdings;
  holdings.runs.resize(in.count(sizeof(std::int32_t)));
  for (int& rank : holdings.runs) rank = read_rank();
  for (std::size_t left = in.count(sizeof(std::int32_t)); left > 0; --left) {
    auto& steps = holdings.copies[read_rank()];
    steps.resize(in.count(sizeof(std::int64_t)));
    for (std::int64_t& step : steps) step = in.number<std::int64_t>();
  }
  for (std::size_t left = in.count(sizeof(std::int64_t)); left > 0; --left) {
    const auto step = in.number<std::int64_t>();
    const auto record = in.bytes();
    holdings.records[step] = Bytes(record.begin(), record.end());
  }
  in.end();
  return holdings;
}

std::vector<int> ranks_with_state_of(int rank, const Mesh& mesh, bool divided) {
  return divided ? std::vector<int>{rank} : mesh.group(rank, {Axis::dp, Axis::cp});
}

std::vector<int> states_of_process(int process, const Mesh& mesh, bool divided) {
  std::vector<int> ranks;
  std::set<std::vector<int>> states;
  for (const int rank : mesh.ranks_of(process))
    if (states.insert(ranks_with_state_of(rank, mesh, divided)).second) ranks.push_back(rank);
  return ranks;
}

bool loses_states_with_process(const Mesh& mesh, bool divided) {
  if (buddy_order(mesh).size() == 1) return false;
  for (int rank = 0; rank < mesh.size(); ++rank)
    if (!mesh.spans_processes(ranks_with_state_of(rank, mesh, divided))) return true;
  return false;
}

std::optional<Agreement> agree(const std::vector<Holdings>& processes, const Mesh& mesh, bool divided, const Dealing& dealing,
                               int* missing) {
  std::vector<std::vector<int>> equals;  // by rank
  for (int rank = 0; rank < mesh.size(); ++rank) equals.push_back(ranks_with_state_of(rank, mesh, divided));
  Agreement agreement;
  // A process without ranks never has a copy, however many steps have been done.
  agreement.from_start =
      std::all_of(processes.begin(), processes.end(), [](const Holdings& own) { return own.copies.empty(); }) &&
      std::any_of(processes.begin(), processes.end(), [](const Holdings& own) { return !own.runs.empty(); });
  const auto step = newest_step(processes, equals, missing);
  if (!step && !agreement.from_start) return {};
  agreement.step = step.value_or(0);
  agreement.process_of.assign(static_cast<std::size_t>(mesh.size()), nobody);
  for (int process = 0; process < std::ssize(processes); ++process)
    for (const int rank : processes[static_cast<std::size_t>(process)].runs)
      agreement.process_of[static_cast<std::size_t>(rank)] = process;
  deal_lost(static_cast<int>(processes.size()), mesh, equals, agreement);
  share_out(static_cast<int>(processes.size()), dealing.spares, dealt_together(mesh, dealing.whole_stages), agreement);
  if (agreement.from_start) return agreement;
  for (const Holdings& own : processes)
    if (const auto record = own.records.find(*step); record != own.records.end()) agreement.record = record->second;
  for (int rank = 0; rank < mesh.size(); ++rank)
    agreement.sources.push_back(*source_of(processes, equals[static_cast<std::size_t>(rank)], *step,
                                           agreement.process_of[static_cast<std::size_t>(rank)]));
  return agreement;
}

}  // namespace pipetrain
