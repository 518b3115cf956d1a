// The messages between processes, and the transfer of their data.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "comm/ucx/ucx_connection.hpp"
#include "comm/ucx/ucx_cross_memory.hpp"
#include "comm/ucx/ucx_peers.hpp"

namespace pipetrain {
namespace {

// The piece of a fetch; other messages are handled in between.
constexpr std::size_t piece = std::size_t{256} << 10;

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

struct OwnHeader {
  std::uint64_t first = 0, second = 0;
};

}  // namespace

void UcxPeers::on_message(UcxMessage message, Handler handler) {
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
  worker_.call([&] {
    check_ucx(ucp_worker_set_am_recv_handler(worker_.handle(), &param), "take messages");
    handlers_.push_back(std::move(registration));
  });
}

// --- in ---

ucs_status_t UcxPeers::receive(const Registration& registration, std::span<const std::byte> header, UcxPayload payload) {
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
    if (!aborted()) registration.handler(header, elsewhere);
    return UCS_OK;
  }
  if (!aborted()) registration.handler(header, payload);
  return payload.status();
}

void UcxPeers::receive_own(UcxMessage message, int process, std::span<const std::byte> header) {
  OwnHeader content;
  if (header.size() != sizeof content || process == control_.process()) return count_dropped();
  std::memcpy(&content, header.data(), sizeof content);
  const Greeting greeting{content.first, content.second};
  const auto peer = peers_.find(process);
  if (peer == peers_.end()) {
    const bool is_new = message == UcxMessage::hello ? early_.emplace(process, greeting).second
                                                     : message == UcxMessage::leave && left_.insert(process).second;
    return is_new ? void() : count_dropped();
  }
  Connection& connection = *peer->second;
  switch (message) {
    case UcxMessage::hello:
      return take_greeting(connection, greeting);
    case UcxMessage::near:
      connection.near = true;
      return;
    case UcxMessage::fetched:
      return take_fetched(connection, content.first);
    default:  // leave
      if (left_.insert(process).second && !leaving_) send_own(connection, UcxMessage::leave);
      notify();
  }
}

// Tells the other process when this one can read its memory: only that very process has the value at that address.
void UcxPeers::take_greeting(Connection& connection, const Greeting& greeting) {
  const int process = connection.process;
  if (is_connected(process)) return count_dropped();
  std::uint64_t read = 0;
  const CrossMemory there{control_.info(process).pid, greeting.address};
  if (is_on_this_machine(process) && read_cross_memory(there, &read, sizeof read) && read == greeting.value)
    send_own(connection, UcxMessage::near);
  mark_connected(process);
}

// --- data that are fetched ---

bool UcxPeers::is_on_this_machine(int process) const {
  const std::string& own = control_.info(control_.process()).machine;
  return !own.empty() && own == control_.info(process).machine;
}

void UcxPeers::map_memory(int process, const std::vector<SharedMemoryName>& names) {
  if (!is_on_this_machine(process)) return;
  for (const SharedMemoryName& name : names) {
    if (auto memory = MappedMemory::open(control_.info(process).pid, name)) mapped_[process].push_back(std::move(memory));
  }
}

bool UcxPeers::read_memory(int process, const CrossMemory& from, void* to, std::size_t bytes) const {
  const auto mapped = mapped_.find(process);
  if (mapped != mapped_.end()) {
    for (const auto& memory : mapped->second) {
      const std::byte* data = memory->at(from.address, bytes);
      if (data == nullptr) continue;
      std::memcpy(to, data, bytes);
      return true;
    }
  }
  return read_cross_memory(from, to, bytes);
}

UcxPayload UcxPeers::payload_elsewhere(const UcxPreamble& preamble) {
  const CrossMemory from{control_.info(preamble.from).pid, preamble.address};
  return UcxPayload(preamble.bytes, [this, from, process = preamble.from, number = preamble.fetch, bytes = preamble.bytes](
                                        void* to, std::function<void(bool)> done) {
    const auto finish = [this, process, number, done = std::move(done)](bool came) {
      done(came);
      const auto peer = peers_.find(process);
      if (peer != peers_.end() && !peer->second->failed) send_own(*peer->second, UcxMessage::fetched, number);
    };
    if (to == nullptr) return finish(false);
    fetch(process, from, static_cast<std::byte*>(to), bytes, finish);
  });
}

void UcxPeers::fetch(int process, const CrossMemory& from, std::byte* to, std::size_t bytes, std::function<void(bool)> done) {
  const std::size_t size = std::min(bytes, piece);
  if (leaving_) return done(false);
  if (!read_memory(process, from, to, size)) {
    if (left_.count(process) == 0) lose(process, std::string("its memory cannot be read (") + std::strerror(errno) + ")");
    return done(false);
  }
  if (size == bytes) return done(true);
  worker_.post([this, process, next = CrossMemory{from.pid, from.address + size}, to = to + size, left = bytes - size,
                done = std::move(done)]() mutable { fetch(process, next, to, left, std::move(done)); });
}

void UcxPeers::take_fetched(Connection& connection, std::uint64_t number) {
  const auto sent = connection.fetched_by_it.find(number);
  if (sent == connection.fetched_by_it.end()) return count_dropped();
  const auto done = std::move(sent->second);
  connection.fetched_by_it.erase(sent);
  if (done) done();
}

void UcxPeers::forget_fetches(Connection& connection) {
  for (const auto& [number, done] : std::exchange(connection.fetched_by_it, {})) {
    if (done) done();
  }
}

// --- out ---

WireWriter UcxPeers::begin_header() const {
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

void UcxPeers::send_own(Connection& connection, UcxMessage message, std::uint64_t first, std::uint64_t second) {
  WireWriter header = begin_header();
  header.number(first);
  header.number(second);
  send_on(connection, {.message = message, .header = std::move(header).data()});
}

void UcxPeers::send(int process, Outgoing outgoing) {
  const auto peer = peers_.find(process);
  if (peer == peers_.end() || peer->second->failed || left_.count(process) > 0 || aborted()) {
    if (outgoing.done) outgoing.done();
    return;
  }
  Connection& connection = *peer->second;
  if (connection.near && outgoing.bytes > most_sent) {
    UcxPreamble preamble;
    std::memcpy(&preamble, outgoing.header.data(), sizeof preamble);
    preamble.fetch = ++last_fetch_;
    preamble.address = reinterpret_cast<std::uintptr_t>(outgoing.data);
    preamble.bytes = outgoing.bytes;
    std::memcpy(outgoing.header.data(), &preamble, sizeof preamble);
    connection.fetched_by_it.emplace(preamble.fetch, std::move(outgoing.done));
    outgoing = {.message = outgoing.message, .header = std::move(outgoing.header)};
  }
  send_on(connection, std::move(outgoing));
}

void UcxPeers::send_on(Connection& connection, Outgoing outgoing) {
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

}  // namespace pipetrain
