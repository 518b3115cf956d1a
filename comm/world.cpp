#include "comm/world.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "core/error.hpp"

namespace pipetrain {
namespace {

[[noreturn]] void refuse_far(const Mesh& mesh, int rank, int other) {
  throw Error(ErrorKind::unavailable, "rank " + std::to_string(rank) + " runs in process " +
                                          std::to_string(mesh.place(rank).process) + " and rank " + std::to_string(other) +
                                          " in process " + std::to_string(mesh.place(other).process) +
                                          ": there is no transport between them");
}

}  // namespace

World::World(Mesh mesh, int process, const OpenDevice& open, std::shared_ptr<Transport> transport)
    : mesh_(std::move(mesh)), process_(process), ranks_(mesh_.ranks_of(process)), transport_(std::move(transport)) {
  for (const int rank : ranks_) devices_[rank] = open(rank);
}

Device& World::device(int rank) const {
  const auto found = devices_.find(rank);
  if (found == devices_.end()) {
    throw Error(ErrorKind::internal, "rank " + std::to_string(rank) + " has no device in process " + std::to_string(process_));
  }
  return *found->second;
}

SlotMemory World::slot_memory(int rank) const {
  return [transport = transport_.get(), &device = device(rank)](std::size_t bytes, const std::string& what) {
    return transport != nullptr ? transport->slot_memory(device, bytes, what) : device.allocate(bytes, what);
  };
}

std::map<int, std::shared_ptr<Group>> World::group(const std::vector<int>& ranks, GroupUse use) {
  const std::uint32_t number = groups_++;
  const auto here = [this](int rank) { return runs(rank); };
  if (ranks.size() < 2 || std::none_of(ranks.begin(), ranks.end(), here)) return {};
  if (const auto far = std::find_if_not(ranks.begin(), ranks.end(), here); far != ranks.end()) {
    if (!transport_) refuse_far(mesh_, *std::find_if(ranks.begin(), ranks.end(), here), *far);
    std::map<int, Device*> devices;
    for (const int rank : ranks) {
      if (runs(rank)) devices[rank] = &device(rank);
    }
    return transport_->group(ranks, number, devices, use);
  }
  std::vector<Device*> devices;
  for (const int rank : ranks) devices.push_back(&device(rank));
  auto handles = make_groups(devices);
  std::map<int, std::shared_ptr<Group>> by_rank;
  for (std::size_t i = 0; i < ranks.size(); ++i) by_rank[ranks[i]] = std::move(handles[i]);
  return by_rank;
}

LinkKind World::link(int from, int to) const {
  if (!runs(to)) {
    if (!transport_) refuse_far(mesh_, from, to);
    return transport_->link(from, to);
  }
  return link_kind(device(from).id(), device(to).id());
}

}  // namespace pipetrain
