#include "tuning/host_links.hpp"

#include <algorithm>

namespace pipetrain {
namespace {

Mesh mesh_of(const Layout& layout) {
  return Mesh({.dp = layout.dp / layout.ep, .pp = layout.pp, .cp = layout.cp, .ep = layout.ep, .tp = layout.tp});
}

}  // namespace

LinkSpeed HostLinks::of(bool leaves_host) const {
  const DeviceSpeed& speed = request_.speed;
  return leaves_host ? LinkSpeed{speed.host_link_rate, speed.host_latency} : LinkSpeed{speed.link_rate, speed.latency};
}

LinkSpeed HostLinks::replicas(const Layout& layout) const { return within(layout, {Axis::dp, Axis::cp, Axis::ep}); }
LinkSpeed HostLinks::sequences(const Layout& layout) const { return within(layout, {Axis::cp}); }
LinkSpeed HostLinks::experts(const Layout& layout) const { return within(layout, {Axis::ep}); }

// Ranks ascend in a group, and so do their hosts.
LinkSpeed HostLinks::within(const Layout& layout, std::initializer_list<Axis> axes) const {
  if (request_.hosts == 1) return of(false);
  const auto groups = mesh_of(layout).groups(axes);
  return of(std::any_of(groups.begin(), groups.end(),
                        [&](const std::vector<int>& ranks) { return host(ranks.front()) != host(ranks.back()); }));
}

LinkSpeed HostLinks::stages(const Layout& layout, int a, int b) const {
  if (request_.hosts == 1) return of(false);
  const Mesh mesh = mesh_of(layout);
  for (int rank = 0; rank < mesh.size(); ++rank) {
    MeshCoordinate at = mesh.at(rank);
    if (at.pp != a) continue;
    at.pp = b;
    if (host(rank) != host(mesh.rank(at))) return of(true);
  }
  return of(false);
}

}  // namespace pipetrain
