#include "comm/ucx/ucx_peers.hpp"

#include <sys/random.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "comm/control/network_interfaces.hpp"
#include "comm/ucx/ucx_connection.hpp"
#include "comm/ucx/ucx_tcp_admission.hpp"
#include "core/error.hpp"

namespace pipetrain {
namespace {

// How long a leaving process waits until all have been told.
constexpr std::chrono::seconds leave_limit{1};
// How long UCX may still refer to a closed connection.
constexpr std::chrono::seconds closed_limit{1};

std::uint64_t random_key() {
  std::uint64_t key = 0;
  if (getrandom(&key, sizeof key, 0) != static_cast<ssize_t>(sizeof key)) {
    throw Error(ErrorKind::unavailable, "the system gives no random numbers");
  }
  return key;
}

}  // namespace

UcxPeers::UcxPeers(UcxWorker& worker, ControlPlane& control, std::chrono::seconds connect_limit)
    : worker_(worker), control_(control), connect_limit_(connect_limit), probe_(random_key()) {
  for (const UcxMessage message : {UcxMessage::hello, UcxMessage::near, UcxMessage::fetched, UcxMessage::leave}) {
    on_message(message, {});
  }
}

// Two exchanges, because a process that has another one's address greets it at once, and that one must know the key by then.
void UcxPeers::join() {
  WireWriter key;
  key.number(random_key());
  const auto keys = control_.exchange("ucx key", std::move(key).data());
  key_ = WireReader(keys.front()).number<std::uint64_t>();
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
  worker_.call([this] { admission_->open(run_addresses_, [this] { return may_close_sockets(); }); });
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
    for (const auto& connection : closed_) {
      if (connection->closing != nullptr) ucp_request_free(std::exchange(connection->closing, nullptr));
    }
    admission_.reset();
    for (const auto& registration : handlers_) {
      ucp_am_handler_param_t param{};
      param.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB;
      param.id = static_cast<unsigned>(registration->message);
      (void)ucp_worker_set_am_recv_handler(worker_.handle(), &param);
    }
  });
}

// --- ends of connections ---

void UcxPeers::close(std::unique_ptr<Connection> connection) {
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_EP_CLOSE_FLAG_FORCE;
  connection->failed = true;
  if (connection->life.get() >= 0) worker_.forget(connection->life.get());
  connection->life.close();
  forget_fetches(*connection);
  void* request = ucp_ep_close_nbx(connection->endpoint, &param);
  if (UCS_PTR_IS_PTR(request)) connection->closing = request;
  connection->closed = std::chrono::steady_clock::now();
  forget_closed();
  closed_.push_back(std::move(connection));
}

void UcxPeers::forget_closed() {
  const auto oldest = std::chrono::steady_clock::now() - closed_limit;
  std::erase_if(closed_, [oldest](const auto& connection) {
    if (connection->closed > oldest) return false;
    if (connection->closing == nullptr) return true;
    if (ucp_request_check_status(connection->closing) == UCS_INPROGRESS) return false;
    ucp_request_free(connection->closing);
    return true;
  });
}

// UCX may call this while it uses the endpoint, so that is closed afterwards.
void UcxPeers::fail(Connection& connection, const std::string& why) {
  if (std::exchange(connection.failed, true)) return;
  const int process = connection.process;
  if (left_.count(process) == 0) lose(process, why);
  worker_.post([this, process, endpoint = connection.endpoint] { close_broken(process, endpoint); });
}

void UcxPeers::close_broken(int process, ucp_ep_h endpoint) {
  const auto peer = peers_.find(process);
  if (peer == peers_.end() || peer->second->endpoint != endpoint) return;
  auto gone = std::move(peer->second);
  peers_.erase(peer);
  close(std::move(gone));
}

void UcxPeers::cut(int process) {
  const auto peer = peers_.find(process);
  if (peer == peers_.end()) return;
  auto gone = std::move(peer->second);
  peers_.erase(peer);
  left_.insert(process);
  close(std::move(gone));
}

// --- failures ---

void UcxPeers::lose(int process, const std::string& why) {
  ControlPlane::OnLost handler;
  {
    const std::lock_guard lock(mutex_);
    lost_.emplace(process, why);
    ++news_;
    changed_.notify_all();
    if (lost_handler_ && !lost_reported_ && !aborted_ && !leaving_) {
      lost_reported_ = true;
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
    if (lost_handler_ && !lost_.empty() && !lost_reported_ && !aborted_) {
      lost_reported_ = true;
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
  {
    const std::lock_guard lock(mutex_);
    if (!abort_cause_) abort_cause_ = std::move(cause);
    aborted_ = true;
    ++news_;
    changed_.notify_all();
  }
  if (!leaving_) worker_.post([this] { cut_gone(); });
}

// UCX does not notice that a process is stopped: waits for messages in flight there, or for an answer to leave(), would
// take their whole limit.
void UcxPeers::cut_gone() {
  std::vector<int> gone;
  for (const auto& [process, connection] : peers_) {
    if (control_.is_gone(process)) gone.push_back(process);
  }
  for (const int process : gone) cut(process);
}

}  // namespace pipetrain
