// The link between GPUs of one process: a rank computes into its own memory, and a separate stream carries the result
// over the host's links while the rank continues to compute.
#pragma once

#include <vector>

#include "comm/link.hpp"

namespace pipetrain {

class PeerCopyLink final : public Link {
 public:
  // The results in flight at once, including the one that is being computed.
  static constexpr int buffers = 3;

  explicit PeerCopyLink(const LinkSetup& setup);
  static std::size_t memory_bytes(std::size_t bytes);

  // `compute` waits until the previous contents of the memory have been sent.
  Tensor begin(Stream& compute, const Lane& lane) override;
  // The copy waits for the slot to be free.
  void send(Stream& compute, Lane& lane) override;
  Stream* stream() override { return stream_.get(); }

 private:
  struct SendBuffer {
    void* data = nullptr;
    std::unique_ptr<Event> written, left;
  };

  std::size_t bytes_;
  Buffer memory_;
  std::vector<SendBuffer> buffers_;
  std::size_t next_ = 0;
  std::unique_ptr<Stream> stream_;
};

}  // namespace pipetrain
