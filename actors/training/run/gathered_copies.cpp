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
#include "core/wire_fields.hpp"

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

  static void wire_fields(auto& wire, auto& copy) { wire(copy.applied_steps, copy.elements, copy.address); }
};

OfferedCopy offered_copy(const StateCopy& copy) {
  return {copy.applied_steps(), copy.values.size(), reinterpret_cast<std::uintptr_t>(copy.values.data())};
}

// Copies of a rank in shared memory.
struct SharedCopies {
  std::int32_t rank = 0;
  std::uint64_t elements = 0;  // of each
  SharedMemory::Key key;

  static void wire_fields(auto& wire, auto& copies) { wire(copies.rank, copies.elements, copies.key); }
};

struct SharedCopiesList {
  std::vector<SharedCopies> copies;
  static void wire_fields(auto& wire, auto& list) { wire(list.copies); }
};

SharedCopies shared_copies_of(int rank, const StateCopies& copies) { return {rank, copies.elements(), copies.shared()->key()}; }

// True when the processes share the memory of copies: those of several hosts cannot, and exchange copies in messages. Nobody
// writes to the copies of a process that is left out: processes of one host that are left out are killed.
bool share_copies(const ControlPlane& control, const KeptCopies& kept) {
  const std::string& here = control.info(control.process()).machine;
  if (kept.memory == CopyMemory::own || here.empty()) return false;
  for (int process = 0; process < control.processes(); ++process)
    if (control.info(process).machine != here) return false;
  return true;
}

// Replaces the rank's copies by these, unless they are the same.
void open_copies(const SharedCopies& offered, KeptCopies& kept) {
  auto& own = kept.by_rank[offered.rank];
  if (own && own->shared() != nullptr && own->shared()->key().inode == offered.key.inode) return;
  own = std::make_shared<StateCopies>(offered.key, offered.elements);
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
  const OfferedCopy offered =
      read_message<OfferedCopy>(channel.exchange("size of a copy", copy ? to_bytes(offered_copy(*copy)) : Bytes{})[sender]);
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
  if (received) received->set_whole();
}

// One process opens the copies that another one has of a rank; both pass `copies` or `kept`, all others neither.
void hand_over_copies(EngineChannel& channel, int from, int rank, const StateCopies* copies, KeptCopies* kept) {
  const Bytes mine = copies ? to_bytes(shared_copies_of(rank, *copies)) : Bytes{};
  const auto all = channel.exchange("shared copies", mine);
  if (kept) open_copies(read_message<SharedCopies>(all[static_cast<std::size_t>(from)]), *kept);
  channel.exchange("shared copies are open", {});
}

// Gets the copy of each rank that continues from the copy of another rank or process.
void fetch_copies(EngineChannel* channel, const Agreement& agreement, KeptCopies& kept) {
  const int self = channel ? channel->process() : 0;
  const bool shared = channel && share_copies(channel->control(), kept);
  kept.equal_rank.clear();
  for (int rank = 0; rank < std::ssize(agreement.sources); ++rank) {
    const CopySource source = agreement.sources[static_cast<std::size_t>(rank)];
    const int runner = agreement.process_of[static_cast<std::size_t>(rank)];
    if (source == CopySource{runner, rank}) continue;
    const StateCopies* const copies = self == source.process ? kept.by_rank.at(source.rank).get() : nullptr;
    if (runner != source.process && shared) {
      hand_over_copies(*channel, source.process, source.rank, copies, self == runner ? &kept : nullptr);
    } else if (runner != source.process) {
      send_copy(*channel, source.process, runner, agreement.step, copies ? copies->of(agreement.step) : nullptr,
                self == runner ? kept.of_rank(rank).get() : nullptr);
      continue;
    }
    if (self == runner && source.rank != rank) kept.equal_rank[rank] = source.rank;
  }
}

}  // namespace

std::shared_ptr<StateCopies> KeptCopies::of_rank(int rank) {
  auto& own = by_rank[rank];
  if (!own) own = std::make_shared<StateCopies>(memory);
  return own;
}

std::shared_ptr<StateCopies> KeptCopies::continued_by(int rank) {
  const auto equal = equal_rank.find(rank);
  return of_rank(equal == equal_rank.end() ? rank : equal->second);
}

void open_shared_copies(EngineChannel& channel, const std::vector<int>& runs, KeptCopies& kept) {
  if (!share_copies(channel.control(), kept)) return;
  SharedCopiesList mine;
  for (const int rank : runs) mine.copies.push_back(shared_copies_of(rank, *kept.of_rank(rank)));
  const auto all = channel.exchange("copies in shared memory", to_bytes(mine));
  for (int process = 0; process < channel.processes(); ++process) {
    if (process == channel.process()) continue;
    for (const SharedCopies& offered : read_message<SharedCopiesList>(all[static_cast<std::size_t>(process)]).copies)
      open_copies(offered, kept);
  }
  channel.exchange("copies in shared memory are open", {});
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
