// The groups over several processes in which this process has members.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "comm/control_plane.hpp"
#include "comm/ucx/ucx_group.hpp"
#include "comm/ucx/ucx_payload.hpp"
#include "comm/ucx/ucx_peers.hpp"
#include "comm/ucx/ucx_worker.hpp"
#include "core/device.hpp"
#include "core/mesh.hpp"

namespace pipetrain {

class UcxGroups {
 public:
  UcxGroups(std::shared_ptr<UcxWorker> worker, std::shared_ptr<UcxPeers> peers, ControlPlane& control, const Mesh& mesh);

  // Does the same as Transport::group(), for members in more than one process.
  std::map<int, std::shared_ptr<Group>> make(const std::vector<int>& ranks, std::uint32_t number,
                                             const std::map<int, Device*>& devices);

 private:
  // Used on the worker's thread; groups may outlive the transport.
  struct Registry {
    std::map<std::uint32_t, UcxGroupMail*> mails;
    std::set<std::pair<std::uint32_t, int>> ready;  // groups and processes that take their messages
  };

  void announce(std::uint32_t number, const std::set<int>& processes);
  void take_ready(std::span<const std::byte> header);
  std::shared_ptr<UcxGroupPart> make_part(const std::vector<int>& ranks, std::uint32_t number);

  std::shared_ptr<UcxWorker> worker_;
  std::shared_ptr<UcxPeers> peers_;
  ControlPlane& control_;
  const Mesh& mesh_;
  std::shared_ptr<Registry> registry_;
};

}  // namespace pipetrain
