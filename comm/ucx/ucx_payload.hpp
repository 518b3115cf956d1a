// The data of a message that has arrived, or that waits in the sender's memory to be fetched (rendezvous).
#pragma once

#include <ucp/api/ucp.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace pipetrain {

// On the worker's thread only. Data that is not received is dropped.
class UcxPayload {
 public:
  // Moves the data to `to` and reports whether it arrived; with a null pointer drops it.
  using Fetch = std::function<void(void* to, std::function<void(bool)> done)>;

  UcxPayload(std::size_t bytes, Fetch fetch) : bytes_(bytes), elsewhere_(std::move(fetch)) {}
  // See ucp_am_recv_callback_t.
  UcxPayload(ucp_worker_h worker, void* data, std::size_t bytes, std::uint64_t attributes);
  // A fetch that has not begun moves along; the other object is left without data.
  UcxPayload(UcxPayload&& other) noexcept;
  ~UcxPayload();
  UcxPayload(const UcxPayload&) = delete;
  UcxPayload& operator=(const UcxPayload&) = delete;

  std::size_t bytes() const { return bytes_; }

  // Moves all of it to `target`, then calls done(true when it arrived); at once, or later from the worker's progress.
  // `memory` may be null. Call it once only.
  void receive(void* target, ucp_mem_h memory, std::function<void(bool)> done);
  // Returns an object that outlives the handler of its message.
  UcxPayload keep();

  // Returns the value that the handler returns to UCX.
  ucs_status_t status() const { return kept_ ? UCS_INPROGRESS : UCS_OK; }

 private:
  ucp_worker_h worker_ = nullptr;
  void* data_ = nullptr;  // bytes, or UCX's descriptor of data to be fetched; null: received, dropped or moved on
  std::size_t bytes_;
  bool fetch_ = false;           // data_ is a descriptor
  bool persistent_ = false;      // data_ may outlive the handler
  bool owned_ = false;           // kept, so that it must be released here
  bool kept_ = false;            // by keep(), which must be told to UCX
  std::vector<std::byte> copy_;  // where UCX's own memory does not outlive the handler
  Fetch elsewhere_;              // where the data do not travel over UCX
};

}  // namespace pipetrain
