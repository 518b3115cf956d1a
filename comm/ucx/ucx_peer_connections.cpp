// Connects the processes to each other, with limits for their waits.
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "comm/ucx/ucx_connection.hpp"
#include "comm/ucx/ucx_peers.hpp"
#include "comm/ucx/ucx_tcp_admission.hpp"
#include "core/error.hpp"

namespace pipetrain {
namespace {

// A waiting process checks at least this often whether the other one is gone.
constexpr std::chrono::milliseconds look_interval{100};
constexpr const char* ended = "it was killed or ended";

}  // namespace

std::string UcxPeers::reason_of(const Connection& connection, ucs_status_t status) const {
  const bool connected = is_connected(connection.process);
  const bool means_ended = status == UCS_ERR_CONNECTION_RESET || status == UCS_ERR_ENDPOINT_TIMEOUT;
  if (connected && means_ended) return ended;
  return std::string("its connection broke (") + ucs_status_string(status) + ")" + (connected ? "" : remedy_by_ucx_settings());
}

void UcxPeers::connect(const std::set<int>& processes) {
  worker_.call([&] {
    admission_->open(run_addresses_, [this] { return may_close_sockets(); });
    for (const int process : processes) {
      if (process != control_.process() && peers_.count(process) == 0) connect_to(process);
    }
  });
}

void UcxPeers::connect_to(int process) {
  auto connection = std::make_unique<Connection>();
  connection->owner = this;
  connection->process = process;
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(addresses_[static_cast<std::size_t>(process)].data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler.cb = [](void* broken, ucp_ep_h, ucs_status_t status) {
    auto& failing = *static_cast<Connection*>(broken);
    failing.owner->fail(failing, failing.owner->reason_of(failing, status));
  };
  params.err_handler.arg = connection.get();
  const ucs_status_t status = ucp_ep_create(worker_.handle(), &params, &connection->endpoint);
  if (status != UCS_OK) {
    return lose(process,
                std::string("UCX cannot connect to it (") + ucs_status_string(status) + ")" + remedy_by_ucx_settings());
  }
  Connection& connecting = *(peers_[process] = std::move(connection));
  watch(connecting);
  send_own(connecting, UcxMessage::hello, reinterpret_cast<std::uintptr_t>(&probe_), probe_);
  const auto early = early_.find(process);
  if (early == early_.end()) return;
  take_greeting(connecting, early->second);
  early_.erase(early);
}

// UCX 1.13 does not notice the end of a process with which it shares memory. The kernel reports it, where it is recent
// enough; else the control plane does.
void UcxPeers::watch(Connection& connection) {
  const ProcessInfo& other = control_.info(connection.process);
  if (!is_on_this_machine(connection.process)) return;
  connection.life = FileDescriptor(static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(other.pid), 0)));
  if (connection.life.get() < 0) return;
  worker_.watch(connection.life.get(), [this, &connection] { fail(connection, ended); });
}

void UcxPeers::wait_connected(const std::set<int>& processes) {
  const auto connected = [this](int process) { return is_connected(process); };
  for (const int process : processes) {
    const std::string& address = control_.info(process).address;
    wait_for({process}, connected, {connect_limit_, "it did not answer" + (address.empty() ? "" : " from " + address)});
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
      if (control_.is_gone(process)) refuse(process, "it is gone");
      const auto now = std::chrono::steady_clock::now();
      if (now > limit) {
        refuse(process, patience.late + " within " + std::to_string(patience.limit.count()) +
                            " s; check that it runs, and that no firewall is in between");
      }
      changed_.wait_until(lock, std::min(limit, now + look_interval), [&] { return news_ != seen; });
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

// Keeps them open until the first connections: before those, another process may try to connect as long as it waits.
bool UcxPeers::may_close_sockets() const {
  return !peers_.empty() &&
         std::all_of(peers_.begin(), peers_.end(), [this](const auto& peer) { return is_connected(peer.first); });
}

void UcxPeers::mark_connected(int process) {
  const std::lock_guard lock(mutex_);
  connected_.insert(process);
  ++news_;
  changed_.notify_all();
}

}  // namespace pipetrain
