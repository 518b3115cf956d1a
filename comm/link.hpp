// Carries a rank's results into slots in the memory of the ranks that it sends to. One file per kind; link.cpp has their table.
//
// A link neither posts receives nor waits for the receiver's worker: a slot in the sender's hands is the permission to
// write, and the lane's `ready` event tells the receiver's stream when it may read.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "comm/slot.hpp"
#include "core/device.hpp"

namespace pipetrain {

enum class LinkKind {
  same_memory,  // the sender writes the slot directly: between CPU devices, and on one GPU
  peer_copy,    // copy engines carry the data between GPUs that one process drives
};

// Returns the kind of link between two devices of this process.
LinkKind link_kind(DeviceId from, DeviceId to);

// One rank's end of all its links of one kind. Not thread-safe: used by the rank's worker only.
class Link {
 public:
  virtual ~Link() = default;
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  // Returns where to compute the lane's contents, in the lane's shape; `compute` waits until that memory may be written.
  virtual Tensor begin(Stream& compute, const Lane& lane) = 0;
  // Sends the results of `compute` there, then records the lane's `ready`. One send() after each begin().
  virtual void send(Stream& compute, Lane& lane) = 0;

  // Returns the stream of the work that send() enqueues; null: the computing one.
  virtual Stream* stream() { return nullptr; }

 protected:
  Link() = default;
};

struct LinkSetup {
  Device* device = nullptr;  // the sender's; outlives the link
  std::size_t bytes = 0;     // the most of one lane
  std::string owner;         // the beginning of error texts: "stage 1, tp rank 0, replica 0"
};

// Throws Error(out_of_memory).
std::unique_ptr<Link> make_link(LinkKind kind, const LinkSetup& setup);
// Returns the bytes of the sender's device that such a link takes for lanes of at most `bytes`.
std::size_t link_memory(LinkKind kind, std::size_t bytes);

}  // namespace pipetrain
