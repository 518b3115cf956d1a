// How the processes find each other: who listens, who connects, and for how long one waits for another.
#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "comm/ucx/ucx_address.hpp"
#include "comm/ucx/ucx_connection.hpp"
#include "comm/ucx/ucx_peers.hpp"
#include "core/error.hpp"

namespace pipetrain {
namespace {

// From connecting to the answer: the other process's thread has nothing else to do than to answer.
constexpr std::chrono::seconds connect_limit{20};
// How much later than this process another one may come to where both connect.
constexpr std::chrono::seconds late_peer_limit{60};
// Until a process whose connection broke before it answered is asked again.
constexpr std::chrono::milliseconds retry_pause{100};
// Connections that have not said the key, beside those of the run, and how long they may take.
constexpr std::size_t most_strangers = 64;
constexpr std::chrono::seconds greeting_limit{5};

}  // namespace

void UcxPeers::listen(const std::string& address) {
  const SocketAddress place = parse_address(address);
  ucp_listener_params_t params{};
  params.field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_CONN_HANDLER;
  params.sockaddr = place.ucx();
  params.conn_handler.cb = [](ucp_conn_request_h request, void* self) { static_cast<UcxPeers*>(self)->accept(request); };
  params.conn_handler.arg = this;
  const ucs_status_t status = ucp_listener_create(worker_.handle(), &params, &listener_);
  if (status != UCS_OK) {
    throw Error(ErrorKind::unavailable, "UCX cannot listen at " + address + ": " + ucs_status_string(status));
  }
}

std::unique_ptr<UcxPeers::Connection> UcxPeers::open(ucp_ep_params_t params) {
  auto connection = std::make_unique<Connection>();
  connection->owner = this;
  connection->since = std::chrono::steady_clock::now();
  params.field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler.cb = [](void* broken, ucp_ep_h, ucs_status_t status) {
    auto& failing = *static_cast<Connection*>(broken);
    failing.owner->fail(failing, status);
  };
  params.err_handler.arg = connection.get();
  const ucs_status_t status = ucp_ep_create(worker_.handle(), &params, &connection->endpoint);
  if (status != UCS_OK) return nullptr;
  return connection;
}

// Nobody is turned away by ucp_listener_reject(), which UCX 1.13 does not survive when many come at once.
void UcxPeers::accept(ucp_conn_request_h request) {
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST;
  params.conn_request = request;
  if (auto connection = open(params)) strangers_.push_back(std::move(connection));
  worker_.post([this] { close_strangers(); });
}

// Those that took too long, and the oldest where there are too many: who belongs to the run says so at once, and comes again
// when its connection was among them.
void UcxPeers::close_strangers() {
  const auto oldest = std::chrono::steady_clock::now() - greeting_limit;
  const std::size_t most = most_strangers + static_cast<std::size_t>(control_.processes());
  while (!strangers_.empty() && (strangers_.size() > most || strangers_.front()->since < oldest)) {
    auto gone = std::move(strangers_.front());
    strangers_.erase(strangers_.begin());
    count_dropped();
    close(std::move(gone));
  }
}

void UcxPeers::connect(const std::set<int>& processes) {
  worker_.call([&] {
    for (const int process : processes) {
      if (process < control_.process() && peers_.count(process) == 0) connect_to(process);
    }
  });
}

void UcxPeers::connect_to(int process) {
  const SocketAddress place = unpack_address(listeners_[static_cast<std::size_t>(process)]);
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR;
  params.flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER;
  params.sockaddr = place.ucx();
  auto connection = open(params);
  if (connection == nullptr) {
    lose(process, "UCX cannot connect to it");
    return;
  }
  connection->process = process;
  auto& connecting = *(peers_[process] = std::move(connection));
  send_own(connecting, UcxMessage::hello, reinterpret_cast<std::uintptr_t>(&probe_), probe_);
}

void UcxPeers::wait_connected(const std::set<int>& processes) {
  const auto connects = [this](int process) { return process < control_.process(); };
  const auto connected = [this](int process) {
    if (to_try_again_.erase(process) > 0) connect_to(process);
    return is_connected(process);
  };
  for (const int process : processes) {
    const int listens = connects(process) ? process : control_.process();
    const std::string at = to_string(unpack_address(listeners_[static_cast<std::size_t>(listens)]));
    if (connects(process)) {
      wait_for({process}, connected, {connect_limit, "it did not answer at " + at});
    } else {
      wait_for({process}, connected, {late_peer_limit, "it did not connect to " + at});
    }
  }
}

void UcxPeers::wait_for(const std::set<int>& processes, const std::function<bool(int)>& ready, const Patience& patience) {
  const auto limit = std::chrono::steady_clock::now() + patience.limit;
  for (const int process : processes) {
    for (bool done = false; !done;) {
      std::uint64_t seen = 0;
      {
        const std::lock_guard lock(mutex_);
        seen = news_;
      }
      worker_.call([&] { done = ready(process); });
      if (done) break;
      std::unique_lock lock(mutex_);
      if (abort_cause_) std::rethrow_exception(abort_cause_);
      const auto lost = lost_.find(process);
      if (lost != lost_.end()) refuse(process, lost->second);
      const auto now = std::chrono::steady_clock::now();
      if (now > limit) {
        refuse(process, patience.late + " within " + std::to_string(patience.limit.count()) +
                            " s; see that it runs, and that no firewall is in between");
      }
      changed_.wait_until(lock, std::min(limit, now + retry_pause), [&] { return news_ != seen; });
    }
  }
}

void UcxPeers::refuse(int process, const std::string& why) const {
  throw Error(ErrorKind::peer_lost, to_string(control_.info(process)) + " cannot be reached over UCX: " + why);
}

void UcxPeers::notify() {
  const std::lock_guard lock(mutex_);
  ++news_;
  changed_.notify_all();
}

bool UcxPeers::is_connected(int process) const {
  const std::lock_guard lock(mutex_);
  return connected_.count(process) > 0;
}

void UcxPeers::mark_connected(int process) {
  const std::lock_guard lock(mutex_);
  connected_.insert(process);
  ++news_;
  changed_.notify_all();
}

}  // namespace pipetrain
