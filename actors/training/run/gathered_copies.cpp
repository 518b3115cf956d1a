#include "actors/training/run/gathered_copies.hpp"

#include <algorithm>
#include <cstring>
#include <span>
#include <string>

#include "actors/engine/remote/engine_channel.hpp"
#include "actors/ranks/run_processes.hpp"
#include "actors/training/job/train_job.hpp"
#include "comm/control_plane.hpp"
#include "core/error.hpp"
#include "core/process_memory.hpp"
#include "core/wire.hpp"

namespace pipetrain {
namespace {

constexpr std::size_t piece_bytes = std::size_t{8} << 20;  // of a copy, in one message

Holdings holdings_of(const KeptCopies& kept) {
  Holdings holdings{kept.runs, {}, {}};
  for (const auto& [rank, own] : kept.by_rank)
    if (auto steps = own->steps(); !steps.empty()) holdings.copies[rank] = std::move(steps);
  for (const auto& [step, record] : kept.records->all()) holdings.records[step] = *record;
  return holdings;
}

// True when all copies are of the state that the job begins with, which every process can read again.
bool are_of_begin(const std::vector<Holdings>& processes, std::int64_t steps_done) {
  for (const Holdings& own : processes)
    for (const auto& [rank, steps] : own.copies)
      if (std::any_of(steps.begin(), steps.end(), [&](std::int64_t step) { return step != steps_done; })) return false;
  return true;
}

struct OfferedCopy {
  std::int64_t applied_steps = 0;
  std::uint64_t elements = 0;
  std::uint64_t address = 0;  // of the values, in the process that has the copy
};

Bytes to_bytes(const StateCopy& copy) {
  WireWriter out;
  out.number(copy.applied_steps);
  out.number(static_cast<std::uint64_t>(copy.values.size()));
  out.number(static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(copy.values.data())));
  return std::move(out).data();
}

OfferedCopy read_offered_copy(const Bytes& bytes) {
  WireReader in(bytes);
  OfferedCopy offered{in.number<std::int64_t>()};
  offered.elements = in.number<std::uint64_t>();
  offered.address = in.number<std::uint64_t>();
  in.end();
  return offered;
}

// Reads the values from the memory of a process of this machine. Returns false where that is not possible. The process waits
// meanwhile for the next exchange.
bool read_directly(const ControlPlane& control, int from, const OfferedCopy& offered, std::span<float> values) {
  const ProcessInfo& owner = control.info(from);
  const std::string& here = control.info(control.process()).machine;
  return !here.empty() && owner.machine == here &&
         read_process_memory(static_cast<pid_t>(owner.pid), offered.address, values.data(), values.size_bytes());
}

// Sends the copy from one process to another; both pass `copy` and `target` where they have them, all others null.
void send_copy(EngineChannel& channel, int from, int to, std::int64_t step, const StateCopy* copy, StateCopies* target) {
  const auto sender = static_cast<std::size_t>(from), receiver = static_cast<std::size_t>(to);
  const OfferedCopy offered = read_offered_copy(channel.exchange("size of a copy", copy ? to_bytes(*copy) : Bytes{})[sender]);
  StateCopy* const received = target ? target->begin(step, offered.applied_steps, offered.elements) : nullptr;
  const bool has_it = target && (!received || read_directly(channel.control(), from, offered, received->values));
  const Bytes answer(has_it ? std::size_t{1} : std::size_t{0});
  const bool is_there = !channel.exchange("a copy has been read", answer)[receiver].empty();
  const std::size_t bytes = is_there ? 0 : offered.elements * sizeof(float);
  for (std::size_t begin = 0; begin < bytes; begin += piece_bytes) {
    const std::size_t count = std::min(piece_bytes, bytes - begin);
    Bytes mine(copy ? count : 0);
    if (copy) std::memcpy(mine.data(), reinterpret_cast<const std::byte*>(copy->values.data()) + begin, count);
    const auto all = channel.exchange("piece of a copy", std::move(mine));
    const Bytes& piece = all[sender];
    if (piece.size() != count) throw Error(ErrorKind::peer_lost, "a piece of a copy has another size than announced");
    if (received) std::memcpy(reinterpret_cast<std::byte*>(received->values.data()) + begin, piece.data(), count);
  }
  if (received) received->whole = true;
}

// Gets the copy of each rank that continues from the copy of another rank or process.
void fetch_copies(EngineChannel* channel, const Agreement& agreement, KeptCopies& kept) {
  const int self = channel ? channel->process() : 0;
  kept.equal_rank.clear();
  for (int rank = 0; rank < std::ssize(agreement.sources); ++rank) {
    const CopySource source = agreement.sources[static_cast<std::size_t>(rank)];
    const int runner = agreement.process_of[static_cast<std::size_t>(rank)];
    if (source == CopySource{runner, rank}) continue;
    const StateCopy* const copy = self == source.process ? kept.by_rank.at(source.rank)->of(agreement.step) : nullptr;
    StateCopies* const target = self == runner ? kept.of_rank(rank).get() : nullptr;
    if (runner != source.process)
      send_copy(*channel, source.process, runner, agreement.step, copy, target);
    else if (target)
      kept.equal_rank[rank] = source.rank;
  }
}

}  // namespace

std::shared_ptr<StateCopies> KeptCopies::of_rank(int rank) {
  auto& own = by_rank[rank];
  if (!own && allocate)
    own = std::make_shared<StateCopies>([allocate = allocate, rank](std::size_t bytes) { return allocate(rank, bytes); });
  if (!own) own = std::make_shared<StateCopies>();
  return own;
}

std::shared_ptr<StateCopies> KeptCopies::continued_by(int rank) {
  const auto equal = equal_rank.find(rank);
  return of_rank(equal == equal_rank.end() ? rank : equal->second);
}

Agreement gather_copies(EngineChannel* channel, const TrainJob& job, KeptCopies& kept) {
  const Mesh mesh(job.mesh_shape());
  const Bytes mine = to_bytes(holdings_of(kept));
  std::vector<Holdings> processes;
  if (channel) {
    for (const Bytes& theirs : channel->exchange("copies of states", mine))
      processes.push_back(read_holdings(theirs, mesh.size()));
  } else {
    processes.push_back(read_holdings(mine, mesh.size()));
  }
  int lost = 0;
  const Dealing dealing{.spares = job.processes ? job.processes->spares : 0,
                        .whole_stages = job.post_validation || job.layout.order == schedules::Order::ready};
  auto agreement = agree(processes, mesh, divides_states(job), dealing, &lost);
  if (!agreement && are_of_begin(processes, job.steps_done)) {
    for (Holdings& own : processes) own.copies.clear();
    agreement = agree(processes, mesh, divides_states(job), dealing, &lost);
  }
  if (!agreement)
    throw Error(ErrorKind::peer_lost, "the state of rank " + std::to_string(lost) + " (" + to_string(mesh.at(lost)) +
                                          ") is lost: no process that is left has a copy of it");
  if (agreement->from_start) agreement->step = job.steps_done;
  fetch_copies(channel, *agreement, kept);
  // No later agreement goes back before this one, so older copies are of no use.
  if (!agreement->from_start) std::erase_if(kept.by_rank, [&](const auto& copy) { return !copy.second->of(agreement->step); });
  if (!agreement->record.empty()) kept.records->put(agreement->step, std::make_shared<const Bytes>(agreement->record));
  return *agreement;
}

}  // namespace pipetrain
