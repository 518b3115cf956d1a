#include "comm/ucx/ucx_messages.hpp"

#include <cstring>
#include <utility>

namespace pipetrain {

// Begins every message. Where `fetch` is not 0, its data are `bytes` at `address` in the memory of process `from`,
// which waits for the notice that they have been fetched.
struct UcxPreamble {
  std::uint64_t key = 0;
  std::int32_t from = -1;
  std::uint32_t reserved = 0;
  std::uint64_t fetch = 0;
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
};

namespace {

constexpr bool is_own(UcxMessage message) { return message <= UcxMessage::leave; }

struct Sent {
  Bytes header;  // UCX reads it until the message has been sent
  std::function<void()> done;
};

void finish_send(void* request, ucs_status_t, void* user_data) {
  const std::unique_ptr<Sent> sent(static_cast<Sent*>(user_data));
  ucp_request_free(request);
  if (sent->done) sent->done();
}

void send_on(UcxConnection& connection, UcxOutgoing outgoing) {
  auto sent = std::make_unique<Sent>(Sent{std::move(outgoing.header), std::move(outgoing.done)});
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  param.memory_type = UCS_MEMORY_TYPE_HOST;
  if (outgoing.memory != nullptr) {
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMH;
    param.memh = outgoing.memory;
  }
  param.cb.send = finish_send;
  param.user_data = sent.get();
  void* request = ucp_am_send_nbx(connection.endpoint, static_cast<unsigned>(outgoing.message), sent->header.data(),
                                  sent->header.size(), outgoing.data, outgoing.bytes, &param);
  if (request != nullptr && !UCS_PTR_IS_ERR(request)) {
    (void)sent.release();
  } else if (sent->done) {
    sent->done();
  }
}

}  // namespace

UcxMessages::UcxMessages(UcxWorker& worker, ControlPlane& control, UcxPresence& presence, UcxConnections& connections,
                         UcxFetcher& fetcher, OwnHandler own)
    : worker_(worker),
      control_(control),
      presence_(presence),
      connections_(connections),
      fetcher_(fetcher),
      own_(std::move(own)) {}

void UcxMessages::on_message(UcxMessage message, Handler handler) {
  auto registration = std::make_unique<Registration>(Registration{this, message, std::move(handler)});
  ucp_am_handler_param_t param{};
  param.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS | UCP_AM_HANDLER_PARAM_FIELD_CB |
                     UCP_AM_HANDLER_PARAM_FIELD_ARG;
  param.id = static_cast<unsigned>(message);
  param.flags = UCP_AM_FLAG_WHOLE_MSG;
  param.arg = registration.get();
  param.cb = [](void* to, const void* header, std::size_t header_bytes, void* data, std::size_t bytes,
                const ucp_am_recv_param_t* about) {
    const auto& own = *static_cast<Registration*>(to);
    return own.owner->receive(own, {static_cast<const std::byte*>(header), header_bytes},
                              UcxPayload(own.owner->worker_.handle(), data, bytes, about->recv_attr));
  };
  check_ucx(ucp_worker_set_am_recv_handler(worker_.handle(), &param), "take messages");
  handlers_.push_back(std::move(registration));
}

void UcxMessages::remove_handlers() {
  for (const auto& registration : handlers_) {
    ucp_am_handler_param_t param{};
    param.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB;
    param.id = static_cast<unsigned>(registration->message);
    (void)ucp_worker_set_am_recv_handler(worker_.handle(), &param);
  }
}

ucs_status_t UcxMessages::receive(const Registration& registration, std::span<const std::byte> header, UcxPayload payload) {
  UcxPreamble preamble;
  if (header.size() >= sizeof preamble) std::memcpy(&preamble, header.data(), sizeof preamble);
  if (preamble.key != key_ || preamble.from < 0 || preamble.from >= control_.processes()) {
    count_dropped();
    return UCS_OK;
  }
  header = header.subspan(sizeof preamble);
  if (is_own(registration.message)) {
    receive_own(registration.message, preamble.from, header);
    return UCS_OK;
  }
  if (preamble.fetch != 0) {
    UcxPayload elsewhere = payload_elsewhere(preamble);
    if (!presence_.aborted()) registration.handler(header, elsewhere);
    return UCS_OK;
  }
  if (!presence_.aborted()) registration.handler(header, payload);
  return payload.status();
}

void UcxMessages::receive_own(UcxMessage message, int process, std::span<const std::byte> header) {
  UcxOwnContent content;
  if (header.size() != sizeof content || process == control_.process()) return count_dropped();
  std::memcpy(&content, header.data(), sizeof content);
  own_(message, process, content);
}

UcxPayload UcxMessages::payload_elsewhere(const UcxPreamble& preamble) {
  const CrossMemory from{control_.info(preamble.from).pid, preamble.address};
  return UcxPayload(preamble.bytes, [this, from, process = preamble.from, number = preamble.fetch, bytes = preamble.bytes](
                                        void* to, std::function<void(bool)> done) {
    const auto finish = [this, process, number, done = std::move(done)](bool came) {
      done(came);
      UcxConnection* const peer = connections_.find(process);
      if (peer != nullptr && !peer->failed) send_own(*peer, UcxMessage::fetched, {number});
    };
    if (to == nullptr) return finish(false);
    fetcher_.fetch(process, from, static_cast<std::byte*>(to), bytes, finish);
  });
}

WireWriter UcxMessages::begin_header() const {
  WireWriter header;
  const UcxPreamble preamble{.key = key_, .from = control_.process()};
  header.number(preamble.key);
  header.number(preamble.from);
  header.number(preamble.reserved);
  header.number(preamble.fetch);
  header.number(preamble.address);
  header.number(preamble.bytes);
  return header;
}

void UcxMessages::send_own(UcxConnection& connection, UcxMessage message, const UcxOwnContent& content) {
  WireWriter header = begin_header();
  header.number(content.first);
  header.number(content.second);
  send_on(connection, {.message = message, .header = std::move(header).data()});
}

void UcxMessages::send(int process, UcxOutgoing outgoing) {
  UcxConnection* const connection = connections_.find(process);
  if (connection == nullptr || connection->failed || presence_.has_left(process) || presence_.aborted()) {
    if (outgoing.done) outgoing.done();
    return;
  }
  if (connection->near && outgoing.bytes > most_sent) {
    UcxPreamble preamble;
    std::memcpy(&preamble, outgoing.header.data(), sizeof preamble);
    preamble.fetch = ++last_fetch_;
    preamble.address = reinterpret_cast<std::uintptr_t>(outgoing.data);
    preamble.bytes = outgoing.bytes;
    std::memcpy(outgoing.header.data(), &preamble, sizeof preamble);
    connection->fetched_by_it.emplace(preamble.fetch, std::move(outgoing.done));
    outgoing = {.message = outgoing.message, .header = std::move(outgoing.header)};
  }
  send_on(*connection, std::move(outgoing));
}

}  // namespace pipetrain
