#include "comm/link.hpp"

#include "comm/inproc/peer_copy_link.hpp"
#include "comm/inproc/same_memory_link.hpp"
#include "core/error.hpp"

namespace pipetrain {

LinkKind link_kind(DeviceId from, DeviceId to) {
  return from.kind == DeviceKind::cuda && !(from == to) ? LinkKind::peer_copy : LinkKind::same_memory;
}

std::unique_ptr<Link> make_link(LinkKind kind, const LinkSetup& setup) {
  switch (kind) {
    case LinkKind::same_memory:
      return std::make_unique<SameMemoryLink>();
    case LinkKind::peer_copy:
      return std::make_unique<PeerCopyLink>(setup);
  }
  throw Error(ErrorKind::internal, "an unknown kind of link");
}

std::size_t link_memory(LinkKind kind, std::size_t bytes) {
  return kind == LinkKind::peer_copy ? PeerCopyLink::memory_bytes(bytes) : 0;
}

}  // namespace pipetrain
