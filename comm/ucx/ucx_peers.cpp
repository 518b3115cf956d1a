#include "comm/ucx/ucx_peers.hpp"

#include <sys/random.h>

#include <algorithm>
#include <utility>

#include "comm/control/network_interfaces.hpp"
#include "core/error.hpp"

namespace pipetrain {
namespace {

// How long a leaving process waits until all have been told.
constexpr std::chrono::seconds leave_limit{1};

std::uint64_t random_key() {
  std::uint64_t key = 0;
  if (getrandom(&key, sizeof key, 0) != static_cast<ssize_t>(sizeof key)) {
    throw Error(ErrorKind::unavailable, "the system gives no random numbers");
  }
  return key;
}

}  // namespace

UcxPeers::UcxPeers(UcxWorker& worker, ControlPlane& control, std::chrono::seconds connect_limit)
    : worker_(worker),
      control_(control),
      connect_limit_(connect_limit),
      probe_(random_key()),
      presence_(worker, control),
      fetcher_(worker, control, presence_),
      connections_(worker, control, presence_),
      messages_(worker, control, presence_, connections_, fetcher_,
                [this](UcxMessage message, int process, const UcxOwnContent& content) { receive(message, process, content); }) {
  for (const UcxMessage message : {UcxMessage::hello, UcxMessage::near, UcxMessage::fetched, UcxMessage::leave}) {
    on_message(message, {});
  }
}

void UcxPeers::on_message(UcxMessage message, UcxMessages::Handler handler) {
  worker_.call([&] { messages_.on_message(message, std::move(handler)); });
}

// Two exchanges, because a process that has another one's address greets it at once, and that one must know the key by then.
void UcxPeers::join() {
  WireWriter key;
  key.number(random_key());
  const auto keys = control_.exchange("ucx key", std::move(key).data());
  messages_.set_key(WireReader(keys.front()).number<std::uint64_t>());
  worker_.call([this] { admission_ = std::make_unique<UcxTcpAdmission>(worker_); });
  WireWriter mine;
  mine.bytes(worker_.address());
  const auto interfaces = network_interfaces();
  mine.list(interfaces, [&](const NetworkInterface& one) { mine.text(one.address); });
  for (const Bytes& offered : control_.exchange("ucx addresses", std::move(mine).data())) {
    WireReader in(offered);
    const auto address = in.bytes();
    addresses_.emplace_back(address.begin(), address.end());
    for (std::size_t left = in.count(1); left > 0; --left) run_addresses_.insert(in.text());
  }
  // With network address translation, process 0 sees the processes at other addresses than their hosts do.
  for (int process = 0; process < control_.processes(); ++process) run_addresses_.insert(control_.info(process).address);
  worker_.call([this] { admission_->open(run_addresses_, [this] { return connections_.all_connected(); }); });
}

// The sockets stay open until the first connections: before those, another process may try to connect as long as it waits.
void UcxPeers::connect(const std::set<int>& processes) {
  worker_.call([&] {
    admission_->open(run_addresses_, [this] { return connections_.all_connected(); });
    for (const int process : processes) {
      if (process != control_.process() && connections_.find(process) == nullptr) greet(process);
    }
  });
}

void UcxPeers::greet(int process) {
  UcxConnection* const connection = connections_.open(process, addresses_[static_cast<std::size_t>(process)]);
  if (connection == nullptr) return;
  messages_.send_own(*connection, UcxMessage::hello, {reinterpret_cast<std::uintptr_t>(&probe_), probe_});
  const auto early = early_.find(process);
  if (early == early_.end()) return;
  take_greeting(*connection, early->second);
  early_.erase(early);
}

void UcxPeers::wait_connected(const std::set<int>& processes) {
  const auto connected = [this](int process) { return presence_.is_connected(process); };
  for (const int process : processes) {
    const std::string& address = control_.info(process).address;
    wait_for({process}, connected, {connect_limit_, "it did not answer" + (address.empty() ? "" : " from " + address)});
  }
}

void UcxPeers::receive(UcxMessage message, int process, const UcxOwnContent& content) {
  UcxConnection* const connection = connections_.find(process);
  if (connection == nullptr) {
    const bool is_new = message == UcxMessage::hello ? early_.emplace(process, content).second
                                                     : message == UcxMessage::leave && presence_.mark_left(process);
    return is_new ? void() : count_dropped();
  }
  switch (message) {
    case UcxMessage::hello:
      return take_greeting(*connection, content);
    case UcxMessage::near:
      connection->near = true;
      return;
    case UcxMessage::fetched:
      return connection->take_fetched(content.first) ? void() : count_dropped();
    default:  // leave
      if (presence_.mark_left(process) && !presence_.leaving()) messages_.send_own(*connection, UcxMessage::leave);
      notify();
  }
}

// Tells the other process when this one can read its memory: only that very process has the value at that address.
void UcxPeers::take_greeting(UcxConnection& connection, const UcxOwnContent& greeting) {
  const int process = connection.process;
  if (presence_.is_connected(process)) return count_dropped();
  std::uint64_t read = 0;
  const CrossMemory there{control_.info(process).pid, greeting.first};
  if (is_on_this_machine(control_, process) && read_cross_memory(there, &read, sizeof read) && read == greeting.second)
    messages_.send_own(connection, UcxMessage::near);
  presence_.mark_connected(process);
}

void UcxPeers::leave() noexcept {
  if (!presence_.leave()) return;
  const auto all_heard = [this] {
    const auto& all = connections_.all();
    return std::all_of(all.begin(), all.end(), [this](const auto& peer) { return presence_.has_left(peer.first); });
  };
  worker_.call([this] {
    for (const auto& [process, connection] : connections_.all()) {
      if (!connection->failed && !presence_.has_left(process)) messages_.send_own(*connection, UcxMessage::leave);
    }
  });
  const auto limit = std::chrono::steady_clock::now() + leave_limit;
  for (bool heard = false; !heard && std::chrono::steady_clock::now() < limit;) {
    worker_.call([&] { heard = all_heard(); });
    if (!heard) presence_.wait_for_news(std::chrono::milliseconds(20));
  }
  worker_.call([this] {
    connections_.close_all();
    admission_.reset();
    messages_.remove_handlers();
  });
}

void UcxPeers::abort(std::exception_ptr cause) noexcept {
  presence_.abort(std::move(cause));
  if (!presence_.leaving()) worker_.post([this] { connections_.cut_gone(); });
}

}  // namespace pipetrain
