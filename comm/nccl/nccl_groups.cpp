#include "comm/nccl/nccl_groups.hpp"

#include <chrono>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "comm/nccl/nccl_group.hpp"
#include "core/error.hpp"

namespace pipetrain {
namespace {

constexpr std::chrono::seconds name_limit{300};

// Exchanges no rows of three widths: loads the kernels of exchanges, which may wait for running kernels.
void rehearse_exchange(NcclGroup& group, Stream& stream, void* zeros) {
  const Tensor offsets{zeros, {group.size() + 1}, DType::i32};
  RowExchange exchange{.rows = {}, .offsets = offsets, .received = offsets, .most = 1};
  for (const std::int64_t bytes : {16, 4, 2}) {
    const Tensor rows{zeros, {1, bytes / 2}, DType::bf16};
    exchange.rows.push_back({rows, rows});
  }
  group.all_to_all(stream, exchange);
}

// Runs a first sum and a first exchange, which connect all ranks: on threads, because they may wait for other ranks.
void rehearse(const std::map<int, std::shared_ptr<NcclGroup>>& groups, const std::map<int, Device*>& devices) {
  std::vector<std::thread> threads;
  std::vector<std::exception_ptr> failures(groups.size());
  for (const auto& [rank, group] : groups) {
    threads.emplace_back([&device = *devices.at(rank), group = group.get(), &failure = failures[threads.size()]] {
      try {
        const Tensor numbers{nullptr, {4096}, DType::f32};
        const Buffer memory = device.allocate(numbers.bytes(), "a first sum");
        const auto stream = device.make_stream("a first sum");
        const Tensor zeros{memory.data(), numbers.shape, numbers.dtype};
        stream->zero(zeros);
        group->all_reduce(*stream, zeros, Reduction::sum);
        rehearse_exchange(*group, *stream, zeros.data);
        group->forget(*stream);
        stream->synchronize();
      } catch (...) {
        failure = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

}  // namespace

NcclGroups::NcclGroups(ControlPlane& control, const Mesh& mesh, NcclComms& comms, Send send)
    : control_(control), mesh_(mesh), comms_(comms), send_(std::move(send)) {}

std::map<int, std::shared_ptr<Group>> NcclGroups::make(const std::vector<int>& ranks, std::uint32_t number,
                                                       const std::map<int, Device*>& devices, GroupUse use) {
  const Bytes id = name(ranks, number);
  std::map<int, std::shared_ptr<NcclComm>> own;
  for (std::size_t member = 0; member < ranks.size(); ++member) {
    const auto device = devices.find(ranks[member]);
    if (device == devices.end()) continue;
    NcclPlace place{id, static_cast<int>(member), static_cast<int>(ranks.size())};
    place.device = device->second->id().index;
    place.peer = another_process(ranks);
    place.most_blocks = nccl_group_blocks();
    own[ranks[member]] = comms_.join(place);
  }
  std::map<int, std::shared_ptr<NcclGroup>> groups;
  for (const auto& [rank, comm] : own) comm->settle();
  for (const auto& [rank, comm] : own) groups[rank] = make_nccl_group(comm, *devices.at(rank), use);
  rehearse(groups, devices);
  return {groups.begin(), groups.end()};
}

int NcclGroups::another_process(const std::vector<int>& ranks) const {
  for (const int rank : ranks) {
    if (mesh_.place(rank).process != control_.process()) return mesh_.place(rank).process;
  }
  return control_.process();
}

Bytes NcclGroups::name(const std::vector<int>& ranks, std::uint32_t number) {
  const int namer = mesh_.place(ranks.front()).process;
  if (namer == control_.process()) {
    const Bytes id = make_nccl_id();
    std::set<int> others;
    for (const int rank : ranks) others.insert(mesh_.place(rank).process);
    others.erase(namer);
    for (const int process : others) {
      WireWriter message;
      message.number(number);
      message.bytes(id);
      send_(process, std::move(message).data());
    }
    return id;
  }
  std::unique_lock lock(mutex_);
  const bool in_time = changed_.wait_for(lock, name_limit, [&] { return cause_ || names_.count(number) > 0; });
  if (cause_) std::rethrow_exception(cause_);
  if (!in_time) throw Error(ErrorKind::peer_lost, "a group of GPUs waits for " + to_string(control_.info(namer)));
  const Bytes id = std::move(names_[number]);
  names_.erase(number);
  return id;
}

void NcclGroups::handle(WireReader& in) {
  const auto number = in.number<std::uint32_t>();
  const auto id = in.bytes();
  in.end();
  const std::lock_guard lock(mutex_);
  names_[number] = {id.begin(), id.end()};
  changed_.notify_all();
}

void NcclGroups::abort(const std::exception_ptr& cause) noexcept {
  const std::lock_guard lock(mutex_);
  cause_ = cause;
  changed_.notify_all();
}

}  // namespace pipetrain
