#include "tuning/host_links.hpp"

#include <algorithm>

#include "core/mesh.hpp"

namespace pipetrain {
namespace {

Mesh mesh_of(const Layout& layout) { return Mesh({.dp = layout.dp, .pp = layout.pp, .cp = layout.cp, .tp = layout.tp}); }

}  // namespace

LinkSpeed HostLinks::of(bool leaves_host) const {
  const DeviceSpeed& speed = request_.speed;
  return leaves_host ? LinkSpeed{speed.host_link_rate, speed.host_latency} : LinkSpeed{speed.link_rate, speed.latency};
}

LinkSpeed HostLinks::replicas(const Layout& layout) const { return within(layout, {Axis::dp, Axis::cp}); }
LinkSpeed HostLinks::sequences(const Layout& layout) const { return within(layout, {Axis::cp}); }

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
  for (int replica = 0; replica < layout.dp; ++replica) {
    for (int part = 0; part < layout.cp * layout.tp; ++part) {
      const auto host_of = [&](int stage) {
        return host(mesh.rank({.dp = replica, .pp = stage, .cp = part / layout.tp, .tp = part % layout.tp}));
      };
      if (host_of(a) != host_of(b)) return of(true);
    }
  }
  return of(false);
}

}  // namespace pipetrain
