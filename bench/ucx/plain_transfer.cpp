#include "bench/ucx/plain_transfer.hpp"

#include <chrono>
#include <thread>
#include <utility>

#include "bench/ucx/message.hpp"
#include "comm/ucx/ucx_worker.hpp"
#include "core/error.hpp"

namespace pipetrain::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr unsigned data_id = 0, all_read_id = 1;

void* checked(ucs_status_ptr_t request, const char* what) {
  if (UCS_PTR_IS_ERR(request)) check_ucx(UCS_PTR_STATUS(request), what);
  return request;
}

}  // namespace

PlainTransfer::PlainTransfer(ControlPlane& control) : control_(control) {
  quiet_ucx();
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES;
  params.features = UCP_FEATURE_AM;
  check_ucx(ucp_init(&params, nullptr, &context_), "start");
  ucp_worker_params_t single{};
  single.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  single.thread_mode = UCS_THREAD_MODE_SINGLE;
  check_ucx(ucp_worker_create(context_, &single, &worker_), "make a worker");
  take_messages();

  ucp_address_t* address = nullptr;
  std::size_t size = 0;
  check_ucx(ucp_worker_get_address(worker_, &address, &size), "tell its address");
  const auto* bytes = reinterpret_cast<const std::byte*>(address);
  const auto addresses = control_.exchange("plain transfer", Bytes(bytes, bytes + size));
  ucp_worker_release_address(worker_, address);
  ucp_ep_params_t peer{};
  peer.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
  peer.address = reinterpret_cast<const ucp_address_t*>(addresses.at(static_cast<std::size_t>(1 - control_.process())).data());
  check_ucx(ucp_ep_create(worker_, &peer, &endpoint_), "connect");
}

PlainTransfer::~PlainTransfer() {
  ucp_request_param_t none{};
  void* closing = endpoint_ != nullptr ? ucp_ep_close_nbx(endpoint_, &none) : nullptr;
  if (closing != nullptr && !UCS_PTR_IS_ERR(closing)) {
    while (ucp_request_check_status(closing) == UCS_INPROGRESS) ucp_worker_progress(worker_);
    ucp_request_free(closing);
  }
  if (worker_ != nullptr) ucp_worker_destroy(worker_);
  if (context_ != nullptr) ucp_cleanup(context_);
}

void PlainTransfer::take_messages() {
  ucp_am_handler_param_t handler{};
  handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
  handler.arg = this;
  handler.id = data_id;
  handler.cb = [](void* self, const void*, std::size_t, void* data, std::size_t, const ucp_am_recv_param_t*) {
    static_cast<PlainTransfer*>(self)->came_.push_back(data);
    return UCS_INPROGRESS;
  };
  check_ucx(ucp_worker_set_am_recv_handler(worker_, &handler), "take messages");
  handler.id = all_read_id;
  handler.cb = [](void* self, const void*, std::size_t, void*, std::size_t, const ucp_am_recv_param_t*) {
    static_cast<PlainTransfer*>(self)->all_read_ = true;
    return UCS_OK;
  };
  check_ucx(ucp_worker_set_am_recv_handler(worker_, &handler), "take messages");
}

// Polls, as ucx_perftest does. Yields now and then, since under a real-time policy nothing else would run on this core.
void PlainTransfer::progress() {
  constexpr unsigned often = 1000;
  if (ucp_worker_progress(worker_) > 0) {
    idle_ = 0;
  } else if (++idle_ % often == 0) {
    std::this_thread::yield();
    if (control_.is_gone(1 - control_.process())) throw Error(ErrorKind::peer_lost, "the other process is gone");
  }
}

void PlainTransfer::finish(void* request) {
  if (request == nullptr) return;
  ucs_status_t status;
  while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS) progress();
  ucp_request_free(request);
  check_ucx(status, "move a message");
}

double PlainTransfer::send(Memory& memory, std::size_t bytes, int messages) {
  ucp_request_param_t rendezvous{};
  rendezvous.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  rendezvous.flags = UCP_AM_SEND_FLAG_RNDV;
  std::vector<void*> sending(buffers, nullptr);
  all_read_ = false;
  Clock::time_point start;
  for (int i = 0; i < warm_up + messages; ++i) {
    if (i == warm_up) start = Clock::now();
    const auto buffer = static_cast<std::size_t>(i % buffers);
    finish(std::exchange(sending[buffer], nullptr));
    write_message(memory[buffer].data(), bytes, i);
    sending[buffer] =
        checked(ucp_am_send_nbx(endpoint_, data_id, nullptr, 0, memory[buffer].data(), bytes, &rendezvous), "send a message");
  }
  for (void* request : sending) finish(request);
  while (!all_read_) progress();
  return static_cast<double>(bytes) * messages / std::chrono::duration<double>(Clock::now() - start).count();
}

void PlainTransfer::receive(Memory& memory, std::size_t bytes, int messages) {
  ucp_request_param_t none{};
  for (int i = 0; i < warm_up + messages; ++i) {
    while (came_.empty()) progress();
    void* data = came_.front();
    came_.pop_front();
    const auto buffer = static_cast<std::size_t>(i % buffers);
    finish(checked(ucp_am_recv_data_nbx(worker_, data, memory[buffer].data(), bytes, &none), "fetch a message"));
    read_message(memory[buffer].data(), bytes);
  }
  finish(checked(ucp_am_send_nbx(endpoint_, all_read_id, nullptr, 0, nullptr, 0, &none), "send a message"));
  finish(checked(ucp_worker_flush_nbx(worker_, &none), "send a message"));
}

double PlainTransfer::written_and_read(std::size_t bytes, int messages) {
  Memory memory(buffers, std::vector<std::uint64_t>(bytes / sizeof(std::uint64_t)));
  meet();
  double rate = 0;
  if (control_.process() == 0) {
    rate = send(memory, bytes, messages);
  } else {
    receive(memory, bytes, messages);
  }
  meet();
  return rate;
}

}  // namespace pipetrain::bench
