// The links of one rank to all the ranks that it sends to.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "comm/link.hpp"

namespace pipetrain {

// The kind of link to each rank that a rank sends to, by the receiver's rank.
using LinkKinds = std::map<int, LinkKind>;

// Not thread-safe: used by the rank's worker only.
class OutgoingLinks {
 public:
  // Links of one kind are one object, which shares its memory and its stream. Throws Error(out_of_memory).
  OutgoingLinks(const LinkKinds& kinds, const LinkSetup& setup);

  // Returns the link to this lane. A lane of no rank can be written directly.
  Link& to(const Lane& lane);
  // Returns the streams of the links, without the computing one.
  std::vector<Stream*> streams() const;

  // Returns the bytes of the sender's device for lanes of at most `bytes`.
  static std::size_t memory(const LinkKinds& kinds, std::size_t bytes);

 private:
  std::map<LinkKind, std::unique_ptr<Link>> links_;
  std::map<int, Link*> by_rank_;
  std::unique_ptr<Link> direct_;
};

}  // namespace pipetrain
