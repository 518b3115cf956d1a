// Determines the links that the ranks of a layout use where its devices are spread over hosts: each host has the same number of
// devices, and ranks are dealt to them in order (deal_ranks() of core/mesh.hpp). Tensor-parallel ranks of a stage share a host.
#pragma once

#include <initializer_list>

#include "core/mesh.hpp"
#include "tuning/layout_search.hpp"

namespace pipetrain {

struct LinkSpeed {
  double rate = 0;     // bytes per second
  double latency = 0;  // seconds of a message
};

// Each link is the slowest one of all replicas and tensor-parallel ranks, because all wait for that one.
class HostLinks {
 public:
  explicit HostLinks(const LayoutRequest& request) : request_(request) {}

  // Between those ranks of a stage that have the same weights.
  LinkSpeed replicas(const Layout& layout) const;
  // Between the ranks that share sequences.
  LinkSpeed sequences(const Layout& layout) const;
  LinkSpeed experts(const Layout& layout) const;  // between the ranks that divide the experts
  // Between corresponding ranks of two stages of a replica.
  LinkSpeed stages(const Layout& layout, int a, int b) const;
  // Between any device and process 0, which decides.
  LinkSpeed verdict() const { return of(request_.hosts > 1); }

 private:
  LinkSpeed of(bool leaves_host) const;
  LinkSpeed within(const Layout& layout, std::initializer_list<Axis> axes) const;
  int host(int rank) const { return rank / (request_.devices / request_.hosts); }

  const LayoutRequest& request_;
};

}  // namespace pipetrain
