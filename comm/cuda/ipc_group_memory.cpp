#include "comm/cuda/ipc_group_memory.hpp"

#include <algorithm>
#include <chrono>
#include <string>

#include "comm/cuda/cuda_group.hpp"
#include "core/cuda/cuda_stream.hpp"
#include "core/error.hpp"

namespace pipetrain {
namespace {

constexpr std::chrono::seconds others_limit{300};  // processes load weights of many GiB meanwhile

// introduction: a member's mailbox and posts. allocations: all allocations on its device. ready: a process has got all
// introductions.
enum Saying : std::uint8_t { introduction, allocations, ready };

// Identifies the physical GPU, whatever number it has in a process.
std::string gpu_name(int device) {
  char name[32] = {};
  cuda_check(cudaDeviceGetPCIBusId(name, sizeof name, device), "asking for the PCI address of the GPU", device);
  return name;
}

std::size_t index(int member) { return static_cast<std::size_t>(member); }

}  // namespace

int IpcGroupMemory::process_of(int member) const { return setup_.mesh.place(setup_.ranks[index(member)]).process; }

std::set<int> IpcGroupMemory::other_processes() const {
  std::set<int> processes;
  for (int member = 0; member < size(); ++member)
    if (own_.count(member) == 0) processes.insert(process_of(member));
  return processes;
}

// --- Introductions ----------------------------------------------------------------------------------------------------------

void IpcGroupMemory::add_own(int member, Device& device) {
  View& view = own_[member];
  const int gpu = device.id().index;
  view.device = &device;
  view.box = device.allocate(cuda_group_mailbox_bytes(), "a mailbox of a group of GPUs");
  view.beginnings = device.allocate(sizeof(char*) * max_cuda_group_ranks * most_allocations, "addresses of a group's memory");
  for (const Buffer* buffer : {&view.box, &view.beginnings})
    cuda_check(cudaMemset(buffer->data(), 0, buffer->bytes()), "clearing a mailbox", gpu);
  cuda_check(cudaDeviceSynchronize(), "clearing a mailbox", gpu);
  posts_[index(member)] = SharedHostMemory::create(far_piece_bytes(size()), gpu);
  if (share_gpus({&device})) gpus_are_shared_ = true;
}

void IpcGroupMemory::introduce() {
  {
    const std::lock_guard lock(mutex_);
    for (auto& [member, view] : own_) {
      for (const auto& [other, other_view] : own_) view.mailboxes[index(other)] = other_view.box.data();
      introduced_.insert(member);
    }
  }
  for (auto& [member, view] : own_) {
    send_message(member, introduction, [&, member = member](WireWriter& out) {
      const int gpu = view.device->id().index;
      write(out, export_memory(view.box.data(), gpu));
      out.text(gpu_name(gpu));
      out.text(posts_[index(member)]->name());
      out.flag(gpus_are_shared_);
    });
  }
  wait([this] { return introduced_.size() == setup_.ranks.size(); });
  send_message(own_.begin()->first, ready, [](WireWriter&) {});
}

void IpcGroupMemory::hear_introduction(int member, WireReader& in) {
  const ExportedMemory box = read_exported_memory(in);
  const std::string gpu = in.text(), posts = in.text();
  if (in.flag()) gpus_are_shared_ = true;
  in.end();
  for (const auto& [own, view] : own_)
    if (gpu == gpu_name(view.device->id().index)) return refuse_shared_gpu(own, member);
  auto opened = SharedHostMemory::open(posts, far_piece_bytes(size()), own_.begin()->second.device->id().index);
  const std::string owner = "rank " + std::to_string(setup_.ranks[index(member)]);
  for (auto& [own, view] : own_) {
    void* reached = setup_.imported->open(box, view.device->id().index, owner);
    const std::lock_guard lock(mutex_);
    view.mailboxes[index(member)] = reached;
  }
  const std::lock_guard lock(mutex_);
  posts_[index(member)] = std::move(opened);
  introduced_.insert(member);
}

// Once all others are ready, nobody opens this process's posts any more.
void IpcGroupMemory::hear_ready(int process) {
  const std::lock_guard lock(mutex_);
  ready_.insert(process);
  if (ready_ != other_processes()) return;
  for (const auto& [member, view] : own_) posts_[index(member)]->unlink();
}

// Kernels of two processes alternate on a GPU, and those of a group wait for each other: they might deadlock.
void IpcGroupMemory::refuse_shared_gpu(int own, int other) {
  abort(std::make_exception_ptr(
      Error(ErrorKind::input, "the ranks " + std::to_string(setup_.ranks[index(own)]) + " and " +
                                  std::to_string(setup_.ranks[index(other)]) +
                                  ", in different processes, share one GPU and a group: give each process GPUs of its own")));
}

// --- Allocations ------------------------------------------------------------------------------------------------------------

Place IpcGroupMemory::place_of(int member, const Tensor& tensor) {
  View& view = own_.at(member);
  if (!view.meets) meet(member, view);
  if (tensor.bytes() == 0) return 0;
  const auto* data = static_cast<const char*>(tensor.data);
  auto holding = std::upper_bound(view.own.begin(), view.own.end(), data,
                                  [](const char* address, const DeviceMemory& memory) { return address < memory.begin; });
  if (holding == view.own.begin() || data + tensor.bytes() > (holding - 1)->begin + (holding - 1)->bytes)
    throw Error(ErrorKind::internal, "a collective over processes uses memory that was allocated after the first collective");
  --holding;
  return static_cast<Place>(holding - view.own.begin()) << place_offset_bits | static_cast<Place>(data - holding->begin);
}

void IpcGroupMemory::meet(int member, View& view) {
  share(member, view);
  wait([&] { return view.shared.size() == setup_.ranks.size(); });
  std::vector<const char*> all(static_cast<std::size_t>(max_cuda_group_ranks * most_allocations));
  for (int other = 0; other < size(); ++other) {
    const std::vector<char*>& theirs = view.allocations[index(other)];
    std::copy(theirs.begin(), theirs.end(), all.begin() + std::ptrdiff_t{other} * most_allocations);
  }
  const auto stream = view.device->make_stream("addresses of a group's memory");
  stream->copy(view.beginnings.data(), all.data(), view.beginnings.bytes());
  stream->synchronize();
  view.meets = true;
}

void IpcGroupMemory::share(int member, View& view) {
  const int gpu = view.device->id().index;
  view.own = allocated_memory(gpu);
  if (view.own.size() > static_cast<std::size_t>(most_allocations))
    throw Error(ErrorKind::unavailable, "cuda:" + std::to_string(gpu) + ": " + std::to_string(view.own.size()) +
                                            " pieces of memory cannot be shared between processes, " +
                                            std::to_string(most_allocations) + " can: use fewer chunks, or the transport nccl");
  {
    const std::lock_guard lock(mutex_);
    for (auto& [other, other_view] : own_) {  // they share one address space
      for (const DeviceMemory& memory : view.own) other_view.allocations[index(member)].push_back(memory.begin);
      other_view.shared.insert(member);
    }
  }
  changed_.notify_all();
  send_message(member, allocations, [&](WireWriter& out) {
    out.list(view.own, [&](const DeviceMemory& memory) { write(out, export_memory(memory.begin, gpu)); });
  });
}

void IpcGroupMemory::hear_allocations(int member, WireReader& in) {
  std::vector<ExportedMemory> exported(in.count(sizeof(cudaIpcMemHandle_t)));
  if (exported.size() > static_cast<std::size_t>(most_allocations)) WireReader::refuse("more memory than a rank shares");
  for (ExportedMemory& memory : exported) memory = read_exported_memory(in);
  in.end();
  const std::string owner = "rank " + std::to_string(setup_.ranks[index(member)]);
  for (auto& [own, view] : own_) {
    std::vector<char*> reached;
    for (const ExportedMemory& memory : exported)
      reached.push_back(static_cast<char*>(setup_.imported->open(memory, view.device->id().index, owner)));
    const std::lock_guard lock(mutex_);
    view.allocations[index(member)] = std::move(reached);
    view.shared.insert(member);
  }
}

// --- Requests of members, and their messages --------------------------------------------------------------------------------

void* IpcGroupMemory::mailbox(int member, int other) const {
  const std::lock_guard lock(mutex_);
  return own_.at(member).mailboxes[index(other)];
}

char* IpcGroupMemory::reach(int member, int other, Place place) const {
  return own_.at(member).allocations[index(other)].at(place >> place_offset_bits) + (place & place_offset_mask);
}

const char* const* IpcGroupMemory::beginnings(int member) const {
  return static_cast<const char* const*>(own_.at(member).beginnings.data());
}

void IpcGroupMemory::handle(int from, std::span<const std::byte> message) {
  WireReader in(message);
  const int member = in.number<std::int32_t>();
  if (member < 0 || member >= size() || process_of(member) != from)
    WireReader::refuse("a member of a group that is not its own");
  switch (in.choice(Saying::ready)) {
    case introduction:
      hear_introduction(member, in);
      break;
    case allocations:
      hear_allocations(member, in);
      break;
    case ready:
      in.end();
      hear_ready(from);
      break;
  }
  changed_.notify_all();
}

void IpcGroupMemory::abort(const std::exception_ptr& cause) noexcept {
  const std::lock_guard lock(mutex_);
  if (!cause_) cause_ = cause;
  changed_.notify_all();
}

template <class Body>
void IpcGroupMemory::send_message(int member, int saying, Body body) {
  WireWriter said;
  said.number(static_cast<std::int32_t>(member));
  said.number(static_cast<Saying>(saying));
  body(said);
  WireWriter out;
  out.number(setup_.number);
  out.bytes(said.data());
  for (const int process : other_processes()) setup_.send(process, out.data());
}

template <class Ready>
void IpcGroupMemory::wait(Ready ready) {
  std::unique_lock lock(mutex_);
  const bool in_time = changed_.wait_for(lock, others_limit, [&] { return cause_ || ready(); });
  if (cause_) std::rethrow_exception(cause_);
  if (!in_time) throw Error(ErrorKind::peer_lost, "a group of GPUs waits for a process that does not share its memory");
}

}  // namespace pipetrain
