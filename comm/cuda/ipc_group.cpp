#include "comm/cuda/ipc_group.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <set>
#include <span>
#include <string>

#include "comm/cuda/cuda_group.hpp"
#include "comm/cuda/cuda_ipc_memory.hpp"
#include "core/cuda_stream.hpp"
#include "core/error.hpp"

namespace pipetrain {
namespace {

constexpr std::chrono::seconds others_limit{300};  // processes load weights of many GiB meanwhile
constexpr std::size_t most_early = 1024;           // messages of one group; it takes 2 of each member

enum class Saying : std::uint8_t { mailbox, memory };

// Names the physical GPU, whatever number it has in a process.
std::string gpu_name(int device) {
  char name[32] = {};
  cuda_check(cudaDeviceGetPCIBusId(name, sizeof name, device), "asking for the place of the GPU", device);
  return name;
}

}  // namespace

// What one process knows of one group. Thread-safe.
class IpcGroupMemory {
 public:
  IpcGroupMemory(std::vector<int> ranks, const Mesh& mesh, IpcGroups::Send send, std::shared_ptr<ImportedMemory> imported,
                 std::uint32_t number)
      : ranks_(std::move(ranks)), mesh_(mesh), send_(std::move(send)), imported_(std::move(imported)), number_(number) {}

  int size() const { return static_cast<int>(ranks_.size()); }

  void add_own(int member, Device& device) {
    View& view = own_[member];
    view.device = &device;
    view.box = device.allocate(cuda_group_mailbox_bytes(), "a mailbox of a group of GPUs");
    const int index = device.id().index;
    cuda_check(cudaMemset(view.box.data(), 0, view.box.bytes()), "clearing a mailbox", index);
    cuda_check(cudaDeviceSynchronize(), "clearing a mailbox", index);
  }
  // Once all of this process are added.
  void introduce() {
    for (auto& [member, view] : own_) {
      for (auto& [other, other_view] : own_) {
        view.mailboxes[index(other)] = other_view.box.data();
        view.introduced.insert(other);
      }
    }
    for (auto& [member, view] : own_) {
      tell(member, Saying::mailbox, [&](WireWriter& out) {
        write(out, export_memory(view.box.data(), view.device->id().index));
        out.text(gpu_name(view.device->id().index));
      });
    }
  }
  void wait_for_introductions() {
    wait([this] {
      return std::all_of(own_.begin(), own_.end(),
                         [this](const auto& entry) { return entry.second.introduced.size() == ranks_.size(); });
    });
  }

  void handle(int from, std::span<const std::byte> message) {
    WireReader in(message);
    const int member = in.number<std::int32_t>();
    if (member < 0 || member >= size() || mesh_.place(ranks_[index(member)]).process != from) {
      WireReader::refuse("a member of a group that is not its own");
    }
    const auto saying = in.choice(Saying::memory);
    const ExportedMemory memory = read_exported_memory(in);
    const std::string owner = "rank " + std::to_string(ranks_[index(member)]);
    const std::string gpu = saying == Saying::mailbox ? in.text() : "";
    const std::uint64_t base = saying == Saying::memory ? in.number<std::uint64_t>() : 0;
    in.end();
    for (auto& [own, view] : own_) {
      if (saying == Saying::mailbox && gpu == gpu_name(view.device->id().index)) return refuse_shared_gpu(own, member);
      auto* reached = static_cast<char*>(imported_->open(memory, view.device->id().index, owner));
      const std::lock_guard lock(mutex_);
      if (saying == Saying::mailbox) {
        view.mailboxes[index(member)] = reached;
        view.introduced.insert(member);
      } else {
        view.shifts[index(member)] =
            static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(reached)) - static_cast<std::int64_t>(base);
        view.shared.insert(member);
      }
    }
    changed_.notify_all();
  }

  void share(int member, const Tensor& memory) {
    if (memory.bytes() == 0) return;  // then nobody has any
    {
      const std::lock_guard lock(mutex_);
      View& view = own_.at(member);
      if (view.region.data != nullptr) throw Error(ErrorKind::internal, "a rank shares memory with its group twice");
      view.region = memory;
      for (auto& [other, other_view] : own_) other_view.shared.insert(member);  // one address space
    }
    changed_.notify_all();
    tell(member, Saying::memory, [&](WireWriter& out) {
      write(out, export_memory(memory.data, own_.at(member).device->id().index));
      out.number(static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(memory.data)));
    });
  }
  bool shares(int member, const Tensor& tensor) const {
    const std::lock_guard lock(mutex_);
    const Tensor& region = own_.at(member).region;
    const auto *begin = static_cast<const char*>(region.data), *data = static_cast<const char*>(tensor.data);
    return begin != nullptr && data >= begin && data + tensor.bytes() <= begin + region.bytes();
  }
  std::array<std::int64_t, max_cuda_group_ranks> shifts(int member) {
    const View& view = own_.at(member);
    wait([&] { return view.shared.size() == ranks_.size(); });
    return view.shifts;
  }

  void* mailbox(int member, int other) const {
    const std::lock_guard lock(mutex_);
    return own_.at(member).mailboxes[index(other)];
  }

  void abort(const std::exception_ptr& cause) noexcept {
    const std::lock_guard lock(mutex_);
    if (!cause_) cause_ = cause;
    changed_.notify_all();
  }

 private:
  // Of one rank of this process.
  struct View {
    Device* device = nullptr;
    Buffer box;
    Tensor region;  // what it has shared
    std::array<void*, max_cuda_group_ranks> mailboxes{};
    std::array<std::int64_t, max_cuda_group_ranks> shifts{};
    std::set<int> introduced, shared;  // members of whom it knows
  };

  const std::vector<int> ranks_;
  const Mesh& mesh_;
  const IpcGroups::Send send_;
  const std::shared_ptr<ImportedMemory> imported_;
  const std::uint32_t number_;
  std::map<int, View> own_;  // by member; the keys and devices stay
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::exception_ptr cause_;

  static std::size_t index(int member) { return static_cast<std::size_t>(member); }

  // Kernels of two processes take turns on a GPU, and those of a group wait for each other: they might never end.
  void refuse_shared_gpu(int own, int other) {
    abort(std::make_exception_ptr(Error(
        ErrorKind::input, "the ranks " + std::to_string(ranks_[index(own)]) + " and " + std::to_string(ranks_[index(other)]) +
                              ", in different processes, share one GPU and a group: give each process GPUs of its own")));
  }

  template <class Body>
  void tell(int member, Saying saying, Body body) {
    WireWriter said;
    said.number(static_cast<std::int32_t>(member));
    said.number(saying);
    body(said);
    WireWriter out;
    out.number(number_);
    out.bytes(said.data());
    std::set<int> processes;
    for (const int rank : ranks_) processes.insert(mesh_.place(rank).process);
    processes.erase(mesh_.place(ranks_[index(member)]).process);
    for (const int process : processes) send_(process, out.data());
  }

  template <class Ready>
  void wait(Ready ready) {
    std::unique_lock lock(mutex_);
    const bool in_time = changed_.wait_for(lock, others_limit, [&] { return cause_ || ready(); });
    if (cause_) std::rethrow_exception(cause_);
    if (!in_time) throw Error(ErrorKind::peer_lost, "a group of GPUs waits for a process that says nothing of its memory");
  }
};

namespace {

class RankMemory final : public FarMemory {
 public:
  RankMemory(std::shared_ptr<IpcGroupMemory> group, int member) : group_(std::move(group)), member_(member) {}

  void* mailbox(int rank) const override { return group_->mailbox(member_, rank); }
  void share(const Tensor& memory) override { group_->share(member_, memory); }
  bool shares(const Tensor& tensor) const override { return group_->shares(member_, tensor); }
  std::array<std::int64_t, max_cuda_group_ranks> shifts() override { return group_->shifts(member_); }
  void abort(const std::exception_ptr& cause) noexcept override { group_->abort(cause); }

 private:
  std::shared_ptr<IpcGroupMemory> group_;
  int member_;
};

}  // namespace

IpcGroups::IpcGroups(const Mesh& mesh, int process, Send send)
    : mesh_(mesh), process_(process), send_(std::move(send)), imported_(std::make_shared<ImportedMemory>()) {}

std::map<int, std::shared_ptr<Group>> IpcGroups::make(const std::vector<int>& ranks, std::uint32_t number,
                                                      const std::map<int, Device*>& devices, GroupUse use) {
  if (ranks.size() > static_cast<std::size_t>(max_cuda_group_ranks)) {
    throw Error(ErrorKind::unavailable, "a group of GPUs has at most " + std::to_string(max_cuda_group_ranks) + " ranks, not " +
                                            std::to_string(ranks.size()));
  }
  const auto memory = std::make_shared<IpcGroupMemory>(ranks, mesh_, send_, imported_, number);
  std::vector<FarGroupRank> own;
  std::vector<int> own_ranks;
  for (int member = 0; member < memory->size(); ++member) {
    const int rank = ranks[static_cast<std::size_t>(member)];
    if (mesh_.place(rank).process != process_) continue;
    Device& device = *devices.at(rank);
    memory->add_own(member, device);
    own.push_back({member, &device, std::make_shared<RankMemory>(memory, member)});
    own_ranks.push_back(rank);
  }
  {
    const std::lock_guard lock(mutex_);
    groups_[number] = memory;
    for (const auto& [from, message] : early_[number]) memory->handle(from, message);
    early_.erase(number);
  }
  memory->introduce();
  memory->wait_for_introductions();
  auto handles = make_far_cuda_groups(memory->size(), own, use);
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
      if (waiting.size() == most_early) WireReader::refuse("too much about one group");
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
  for (const auto& [number, weak] : groups_) {
    if (const auto group = weak.lock()) group->abort(cause);
  }
}

}  // namespace pipetrain
