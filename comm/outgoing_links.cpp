#include "comm/outgoing_links.hpp"

#include <set>
#include <string>

#include "core/error.hpp"

namespace pipetrain {
namespace {

std::set<LinkKind> distinct(const LinkKinds& kinds) {
  std::set<LinkKind> found;
  for (const auto& [rank, kind] : kinds) found.insert(kind);
  return found;
}

}  // namespace

OutgoingLinks::OutgoingLinks(const LinkKinds& kinds, const LinkSetup& setup)
    : direct_(make_link(LinkKind::same_memory, setup)) {
  for (const LinkKind kind : distinct(kinds)) links_[kind] = make_link(kind, setup);
  for (const auto& [rank, kind] : kinds) by_rank_[rank] = links_.at(kind).get();
}

Link& OutgoingLinks::to(const Lane& lane) {
  if (lane.rank < 0) return *direct_;
  const auto link = by_rank_.find(lane.rank);
  if (link == by_rank_.end()) throw Error(ErrorKind::internal, "no link to rank " + std::to_string(lane.rank));
  return *link->second;
}

std::vector<Stream*> OutgoingLinks::streams() const {
  std::vector<Stream*> streams;
  for (const auto& [kind, link] : links_) {
    if (Stream* stream = link->stream()) streams.push_back(stream);
  }
  return streams;
}

std::size_t OutgoingLinks::memory(const LinkKinds& kinds, std::size_t bytes) {
  std::size_t sum = 0;
  for (const LinkKind kind : distinct(kinds)) sum += link_memory(kind, bytes);
  return sum;
}

}  // namespace pipetrain
