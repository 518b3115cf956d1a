#include "comm/ucx/ucx_groups.hpp"

#include <chrono>
#include <cstring>
#include <string>

#include "comm/groups.hpp"
#include "comm/ucx/ucx_header.hpp"
#include "core/error.hpp"

namespace pipetrain {
namespace {

// The most announcements for groups that this process has not made yet; no run reaches this number.
constexpr std::size_t most_announcements = 1 << 20;
// How much later than this process another one may make a group.
constexpr std::chrono::seconds late_member_limit{60};

}  // namespace

UcxGroups::UcxGroups(std::shared_ptr<UcxWorker> worker, std::shared_ptr<UcxPeers> peers, ControlPlane& control,
                     const Mesh& mesh)
    : worker_(std::move(worker)),
      peers_(std::move(peers)),
      control_(control),
      mesh_(mesh),
      registry_(std::make_shared<Registry>()) {
  peers_->on_message(UcxMessage::group_ready, [this](auto header, UcxPayload&) { take_ready(header); });
  peers_->on_message(UcxMessage::group_data, [registry = registry_, peers = peers_.get()](auto header, UcxPayload& payload) {
    std::uint32_t number = 0;
    if (header.size() >= sizeof number) std::memcpy(&number, header.data(), sizeof number);
    const auto mail = registry->mails.find(number);
    if (mail == registry->mails.end()) return peers->count_dropped();
    mail->second->take(header, payload);
  });
}

void UcxGroups::take_ready(std::span<const std::byte> header) {
  const auto announcement = UcxReadyHeader::read(header);
  if (!announcement || announcement->process < 0 || announcement->process >= control_.processes() ||
      registry_->ready.size() >= most_announcements) {
    return peers_->count_dropped();
  }
  registry_->ready.emplace(announcement->group, announcement->process);
  peers_->notify();
}

std::map<int, std::shared_ptr<Group>> UcxGroups::make(const std::vector<int>& ranks, std::uint32_t number,
                                                      const std::map<int, Device*>& devices) {
  std::set<int> others;
  for (const int rank : ranks) others.insert(mesh_.place(rank).process);
  others.erase(control_.process());
  for (const auto& [rank, device] : devices) {
    if (device->id().kind != DeviceKind::cpu) throw Error(ErrorKind::internal, "UCX joins ranks on CPUs only");
  }
  peers_->connect(others);
  peers_->wait_connected(others);
  const auto part = make_part(ranks, number);
  std::map<int, std::shared_ptr<Group>> handles;
  for (std::size_t member = 0; member < ranks.size(); ++member) {
    if (mesh_.place(ranks[member]).process != control_.process()) continue;
    handles[ranks[member]] =
        std::make_shared<UcxGroup>(part, static_cast<int>(member), static_cast<int>(ranks.size()), *devices.at(ranks[member]));
  }
  announce(number, others);
  return handles;
}

std::shared_ptr<UcxGroupPart> UcxGroups::make_part(const std::vector<int>& ranks, std::uint32_t number) {
  std::vector<int> processes, here;
  for (const int rank : ranks) {
    processes.push_back(mesh_.place(rank).process);
    if (processes.back() == control_.process()) here.push_back(static_cast<int>(processes.size()) - 1);
  }
  auto part = std::make_shared<UcxGroupPart>();
  part->worker = worker_;
  part->peers = peers_;
  part->number = number;
  part->mail = std::make_unique<UcxGroupMail>(*worker_, *peers_, number, std::move(processes));
  part->board = std::make_unique<UcxGroupBoard>(here);
  worker_->call([&] {
    if (!registry_->mails.emplace(number, part->mail.get()).second) {
      throw Error(ErrorKind::internal, "two groups have the number " + std::to_string(number));
    }
  });
  part->forget = [registry = registry_, number] {
    registry->mails.erase(number);
    std::erase_if(registry->ready, [number](const auto& one) { return one.first == number; });
  };
  return part;
}

// Announces that this process takes the group's messages, and waits until the others do.
void UcxGroups::announce(std::uint32_t number, const std::set<int>& processes) {
  worker_->call([&] {
    for (const int process : processes) {
      peers_->send(process,
                   {.message = UcxMessage::group_ready, .header = peers_->header(UcxReadyHeader{number, control_.process()})});
    }
  });
  peers_->wait_for(processes,
                   [&](int process) {
                     return registry_->ready.count({number, process}) > 0;
                   },
                   {late_member_limit, "it did not come to make group " + std::to_string(number)});
}

}  // namespace pipetrain
