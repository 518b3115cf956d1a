#include "comm/cuda/ipc_group.hpp"

#include <string>

#include "comm/cuda/cuda_group.hpp"
#include "comm/cuda/ipc_group_memory.hpp"
#include "core/error.hpp"

namespace pipetrain {
namespace {

// Early messages of one group that this process has not made yet. A group needs at most 3 per member.
constexpr std::size_t most_early = 1024;

class RankMemory final : public FarMemory {
 public:
  RankMemory(std::shared_ptr<IpcGroupMemory> group, int member) : group_(std::move(group)), member_(member) {}

  void* mailbox(int rank) const override { return group_->mailbox(member_, rank); }
  Place place_of(const Tensor& tensor) override { return group_->place_of(member_, tensor); }
  char* reach(int rank, Place place) const override { return group_->reach(member_, rank, place); }
  const char* const* beginnings() const override { return group_->beginnings(member_); }
  void abort(const std::exception_ptr& cause) noexcept override { group_->abort(cause); }

 private:
  std::shared_ptr<IpcGroupMemory> group_;
  int member_;
};

}  // namespace

IpcGroups::IpcGroups(const Mesh& mesh, int process, Send send)
    : mesh_(mesh), process_(process), send_(std::move(send)), imported_(std::make_shared<ImportedMemory>()) {}

std::map<int, std::shared_ptr<Group>> IpcGroups::make(const std::vector<int>& ranks, std::uint32_t number,
                                                      const std::map<int, Device*>& devices) {
  if (ranks.size() > static_cast<std::size_t>(max_cuda_group_ranks)) {
    throw Error(ErrorKind::unavailable, "a group of GPUs has at most " + std::to_string(max_cuda_group_ranks) + " ranks, not " +
                                            std::to_string(ranks.size()));
  }
  const auto memory = std::make_shared<IpcGroupMemory>(IpcGroupMemory::Setup{ranks, mesh_, number, send_, imported_});
  std::vector<FarGroupRank> own;
  std::vector<int> own_ranks;
  for (int member = 0; member < memory->size(); ++member) {
    const int rank = ranks[static_cast<std::size_t>(member)];
    if (mesh_.place(rank).process != process_) continue;
    Device& device = *devices.at(rank);
    memory->add_own(member, device);
    own.push_back({member, &device, std::make_shared<RankMemory>(memory, member), nullptr});
    own_ranks.push_back(rank);
  }
  {
    const std::lock_guard lock(mutex_);
    groups_[number] = memory;
    if (cause_) memory->abort(cause_);
    for (const auto& [from, message] : early_[number]) memory->handle(from, message);
    early_.erase(number);
  }
  memory->introduce();
  for (FarGroupRank& rank : own) rank.pieces = make_far_piece_meeting(rank.rank, memory->posts(), rank.memory);
  auto handles = make_far_cuda_groups({memory->size(), memory->gpus_are_shared()}, own);
  std::map<int, std::shared_ptr<Group>> by_rank;
  for (std::size_t i = 0; i < handles.size(); ++i) by_rank[own_ranks[i]] = std::move(handles[i]);
  return by_rank;
}

void IpcGroups::handle(int from, WireReader& in) {
  const auto number = in.number<std::uint32_t>();
  const auto message = in.bytes();
  in.end();
  std::shared_ptr<IpcGroupMemory> group;
  {
    const std::lock_guard lock(mutex_);
    const auto found = groups_.find(number);
    if (found == groups_.end()) {
      auto& waiting = early_[number];
      if (waiting.size() == most_early) WireReader::refuse("too many messages about one group");
      waiting.emplace_back(from, Bytes(message.begin(), message.end()));
      return;
    }
    group = found->second.lock();
  }
  if (!group) return;
  try {
    group->handle(from, message);
  } catch (...) {
    group->abort(std::current_exception());
    throw;
  }
}

void IpcGroups::abort(const std::exception_ptr& cause) noexcept {
  const std::lock_guard lock(mutex_);
  if (!cause_) cause_ = cause;
  for (const auto& [number, weak] : groups_) {
    if (const auto group = weak.lock()) group->abort(cause);
  }
}

}  // namespace pipetrain
