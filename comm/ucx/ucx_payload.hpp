// The data of a message that has come in, or that waits in the sender's memory for us to fetch it (rendezvous).
#pragma once

#include <ucp/api/ucp.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace pipetrain {

// On the worker's thread only. What is not received is dropped.
class UcxPayload {
 public:
  // Moves the data to `to` and says whether it came; with a null pointer drops them.
  using Fetch = std::function<void(void* to, std::function<void(bool)> done)>;

  UcxPayload(std::size_t bytes, Fetch fetch) : bytes_(bytes), elsewhere_(std::move(fetch)) {}
  // As ucp_am_recv_callback_t has them.
  UcxPayload(ucp_worker_h worker, void* data, std::size_t bytes, std::uint64_t attributes);
  // A fetch that has not begun moves along; the other one is left without data.
  UcxPayload(UcxPayload&& other) noexcept;
  ~UcxPayload();
  UcxPayload(const UcxPayload&) = delete;
  UcxPayload& operator=(const UcxPayload&) = delete;

  std::size_t bytes() const { return bytes_; }

  // Moves all of it to `target`, then calls done(whether it came); at once, or later from the worker's progress. `memory` may
  // be null. Once only.
  void receive(void* target, ucp_mem_h memory, std::function<void(bool)> done);
  // Makes it outlive the handler of its message.
  UcxPayload keep();

  // What the handler returns to UCX.
  ucs_status_t status() const { return kept_ ? UCS_INPROGRESS : UCS_OK; }

 private:
  ucp_worker_h worker_ = nullptr;
  void* data_ = nullptr;  // bytes, or UCX's descriptor of what is to be fetched; null: received, dropped or moved on
  std::size_t bytes_;
  bool fetch_ = false;           // data_ is a descriptor
  bool persistent_ = false;      // data_ may outlive the handler
  bool owned_ = false;           // kept, so that it is ours to release
  bool kept_ = false;            // by keep(), which must be told to UCX
  std::vector<std::byte> copy_;  // where UCX's own memory does not outlive the handler
  Fetch elsewhere_;              // where the data do not travel over UCX
};

}  // namespace pipetrain
