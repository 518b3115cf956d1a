#include "comm/ucx/ucx_peers.hpp"

#include <sys/random.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "comm/ucx/ucx_address.hpp"
#include "comm/ucx/ucx_connection.hpp"
#include "core/error.hpp"

namespace pipetrain {
namespace {

// How long a process may come later than another one to where both connect.
constexpr std::chrono::minutes connect_limit{5};
// How long a process that leaves waits until all have heard of it.
constexpr std::chrono::seconds leave_limit{1};
// Connections that have not said the key; more are turned away.
constexpr std::size_t most_strangers = 64;

std::uint64_t random_key() {
  std::uint64_t key = 0;
  if (getrandom(&key, sizeof key, 0) != static_cast<ssize_t>(sizeof key)) {
    throw Error(ErrorKind::unavailable, "the system gives no random numbers");
  }
  return key;
}

void finish_close(void* request, ucs_status_t, void*) { ucp_request_free(request); }

}  // namespace

UcxPeers::UcxPeers(UcxWorker& worker, ControlPlane& control) : worker_(worker), control_(control), probe_(random_key()) {
  for (const UcxMessage message :
       {UcxMessage::hello, UcxMessage::welcome, UcxMessage::near, UcxMessage::fetched, UcxMessage::leave}) {
    on_message(message, {});
  }
  worker_.call([this] { listen(own_address(control_)); });
  WireWriter mine;
  mine.number(random_key());
  worker_.call([&] { mine.bytes(listener_address(listener_)); });
  const auto all = control_.exchange("ucx listeners", std::move(mine).data());
  for (const Bytes& one : all) {
    WireReader reader(one);
    const auto key = reader.number<std::uint64_t>();
    if (&one == &all.front()) key_ = key;
    const auto address = reader.bytes();
    listeners_.emplace_back(address.begin(), address.end());
    reader.end();
  }
}

UcxPeers::~UcxPeers() { leave(); }

void UcxPeers::leave() noexcept {
  if (leaving_.exchange(true)) return;
  const auto all_heard = [this] {
    return std::all_of(peers_.begin(), peers_.end(), [this](const auto& peer) { return left_.count(peer.first) > 0; });
  };
  worker_.call([this] {
    for (auto& [process, connection] : peers_) {
      if (!connection->failed && left_.count(process) == 0) send_own(*connection, UcxMessage::leave);
    }
  });
  const auto limit = std::chrono::steady_clock::now() + leave_limit;
  for (bool heard = false; !heard && std::chrono::steady_clock::now() < limit;) {
    worker_.call([&] { heard = all_heard(); });
    std::unique_lock lock(mutex_);
    if (!heard) changed_.wait_for(lock, std::chrono::milliseconds(20));
  }
  worker_.call([this] {
    for (auto& [process, connection] : std::exchange(peers_, {})) close(std::move(connection));
    for (auto& connection : std::exchange(strangers_, {})) close(std::move(connection));
    if (listener_ != nullptr) ucp_listener_destroy(listener_);
    for (const auto& registration : handlers_) {
      ucp_am_handler_param_t param{};
      param.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB;
      param.id = static_cast<unsigned>(registration->message);
      (void)ucp_worker_set_am_recv_handler(worker_.handle(), &param);
    }
  });
}

// --- connections ---

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

void UcxPeers::accept(ucp_conn_request_h request) {
  if (strangers_.size() >= most_strangers || leaving_) {
    count_dropped();
    (void)ucp_listener_reject(listener_, request);
    return;
  }
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST;
  params.conn_request = request;
  if (auto connection = open(params)) strangers_.push_back(std::move(connection));
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
  wait_for(processes, [this](int process) {
    const std::lock_guard lock(mutex_);
    return connected_.count(process) > 0;
  });
}

void UcxPeers::wait_for(const std::set<int>& processes, const std::function<bool(int)>& ready) {
  const auto limit = std::chrono::steady_clock::now() + connect_limit;
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
      if (!changed_.wait_until(lock, limit, [&] { return news_ != seen; })) refuse(process, "it did not answer for 5 minutes");
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

void UcxPeers::close(std::unique_ptr<Connection> connection) {
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_CALLBACK;
  param.flags = UCP_EP_CLOSE_FLAG_FORCE;
  param.cb.send = finish_close;
  connection->failed = true;
  forget_fetches(*connection);
  (void)ucp_ep_close_nbx(connection->endpoint, &param);
  closed_.push_back(std::move(connection));
}

// Called by UCX, which still uses the endpoint: it is closed afterwards.
void UcxPeers::fail(Connection& connection, ucs_status_t status) {
  if (std::exchange(connection.failed, true)) return;
  if (connection.process >= 0 && left_.count(connection.process) == 0) {
    lose(connection.process, std::string("its connection broke (") + ucs_status_string(status) + ")");
  }
  worker_.post([this, endpoint = connection.endpoint] {
    const auto broken = [endpoint](const auto& one) { return one->endpoint == endpoint; };
    const auto stranger = std::find_if(strangers_.begin(), strangers_.end(), broken);
    if (stranger != strangers_.end()) {
      auto gone = std::move(*stranger);
      strangers_.erase(stranger);
      close(std::move(gone));
      return;
    }
    for (auto peer = peers_.begin(); peer != peers_.end(); ++peer) {
      if (!broken(peer->second)) continue;
      auto gone = std::move(peer->second);
      peers_.erase(peer);
      close(std::move(gone));
      return;
    }
  });
}

void UcxPeers::cut(int process) {
  const auto peer = peers_.find(process);
  if (peer == peers_.end()) return;
  auto gone = std::move(peer->second);
  peers_.erase(peer);
  left_.insert(process);
  close(std::move(gone));
}

void UcxPeers::mark_connected(int process) {
  const std::lock_guard lock(mutex_);
  connected_.insert(process);
  ++news_;
  changed_.notify_all();
}

// --- failures ---

void UcxPeers::lose(int process, const std::string& why) {
  ControlPlane::OnLost handler;
  {
    const std::lock_guard lock(mutex_);
    lost_.emplace(process, why);
    ++news_;
    changed_.notify_all();
    if (lost_handler_ && !lost_told_ && !aborted_ && !leaving_) {
      lost_told_ = true;
      handler = lost_handler_;
    }
  }
  if (handler) handler(process, why);
}

void UcxPeers::on_lost(ControlPlane::OnLost handler) {
  std::pair<int, std::string> first{-1, {}};
  {
    const std::lock_guard lock(mutex_);
    lost_handler_ = std::move(handler);
    if (lost_handler_ && !lost_.empty() && !lost_told_ && !aborted_) {
      lost_told_ = true;
      first = *lost_.begin();
    }
  }
  if (first.first < 0) return;
  worker_.post([this, first] {
    ControlPlane::OnLost waiting;
    {
      const std::lock_guard lock(mutex_);
      waiting = lost_handler_;
    }
    if (waiting) waiting(first.first, first.second);
  });
}

void UcxPeers::abort(std::exception_ptr cause) noexcept {
  const std::lock_guard lock(mutex_);
  if (!abort_cause_) abort_cause_ = std::move(cause);
  aborted_ = true;
  ++news_;
  changed_.notify_all();
}

}  // namespace pipetrain
