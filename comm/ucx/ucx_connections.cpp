#include "comm/ucx/ucx_connections.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "comm/ucx/ucx_fetcher.hpp"

namespace pipetrain {
namespace {

constexpr const char* ended = "it was killed or ended";
// How long UCX may still refer to a closed connection.
constexpr std::chrono::seconds closed_limit{1};

}  // namespace

bool UcxConnection::take_fetched(std::uint64_t number) {
  const auto sent = fetched_by_it.find(number);
  if (sent == fetched_by_it.end()) return false;
  const auto done = std::move(sent->second);
  fetched_by_it.erase(sent);
  if (done) done();
  return true;
}

void UcxConnection::forget_fetches() {
  for (const auto& [number, done] : std::exchange(fetched_by_it, {})) {
    if (done) done();
  }
}

UcxConnection* UcxConnections::open(int process, const Bytes& address) {
  auto connection = std::make_unique<UcxConnection>();
  connection->owner = this;
  connection->process = process;
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(address.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler.cb = [](void* broken, ucp_ep_h, ucs_status_t status) {
    auto& failing = *static_cast<UcxConnection*>(broken);
    failing.owner->fail(failing, failing.owner->reason_of(failing, status));
  };
  params.err_handler.arg = connection.get();
  const ucs_status_t status = ucp_ep_create(worker_.handle(), &params, &connection->endpoint);
  if (status != UCS_OK) {
    presence_.lose(process,
                   std::string("UCX cannot connect to it (") + ucs_status_string(status) + ")" + remedy_by_ucx_settings());
    return nullptr;
  }
  UcxConnection& connecting = *(open_[process] = std::move(connection));
  watch(connecting);
  return &connecting;
}

UcxConnection* UcxConnections::find(int process) {
  const auto found = open_.find(process);
  return found == open_.end() ? nullptr : found->second.get();
}

bool UcxConnections::all_connected() const {
  return !open_.empty() &&
         std::all_of(open_.begin(), open_.end(), [this](const auto& peer) { return presence_.is_connected(peer.first); });
}

// UCX 1.13 does not notice the end of a process with which it shares memory. The kernel reports it, where it is recent
// enough; else the control plane does.
void UcxConnections::watch(UcxConnection& connection) {
  if (!is_on_this_machine(control_, connection.process)) return;
  const auto pid = static_cast<pid_t>(control_.info(connection.process).pid);
  connection.life = FileDescriptor(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (connection.life.get() < 0) return;
  worker_.watch(connection.life.get(), [this, &connection] { fail(connection, ended); });
}

std::string UcxConnections::reason_of(const UcxConnection& connection, ucs_status_t status) const {
  const bool connected = presence_.is_connected(connection.process);
  const bool means_ended = status == UCS_ERR_CONNECTION_RESET || status == UCS_ERR_ENDPOINT_TIMEOUT;
  if (connected && means_ended) return ended;
  return std::string("its connection broke (") + ucs_status_string(status) + ")" + (connected ? "" : remedy_by_ucx_settings());
}

// UCX may call this while it uses the endpoint, so a task closes the endpoint later.
void UcxConnections::fail(UcxConnection& connection, const std::string& why) {
  if (std::exchange(connection.failed, true)) return;
  const int process = connection.process;
  if (!presence_.has_left(process)) presence_.lose(process, why);
  worker_.post([this, process, endpoint = connection.endpoint] { close_broken(process, endpoint); });
}

void UcxConnections::close_broken(int process, ucp_ep_h endpoint) {
  const auto peer = open_.find(process);
  if (peer == open_.end() || peer->second->endpoint != endpoint) return;
  auto gone = std::move(peer->second);
  open_.erase(peer);
  close(std::move(gone));
}

void UcxConnections::cut(int process) {
  const auto peer = open_.find(process);
  if (peer == open_.end()) return;
  auto gone = std::move(peer->second);
  open_.erase(peer);
  presence_.mark_left(process);
  close(std::move(gone));
}

// UCX does not notice that a process is stopped: waits for messages in flight there, or for an answer to leave(), would
// take their whole limit.
void UcxConnections::cut_gone() {
  std::vector<int> gone;
  for (const auto& [process, connection] : open_) {
    if (control_.is_gone(process)) gone.push_back(process);
  }
  for (const int process : gone) cut(process);
}

void UcxConnections::close(std::unique_ptr<UcxConnection> connection) {
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_EP_CLOSE_FLAG_FORCE;
  connection->failed = true;
  if (connection->life.get() >= 0) worker_.forget(connection->life.get());
  connection->life.close();
  connection->forget_fetches();
  void* request = ucp_ep_close_nbx(connection->endpoint, &param);
  if (UCS_PTR_IS_PTR(request)) connection->closing = request;
  connection->closed = std::chrono::steady_clock::now();
  forget_closed();
  closed_.push_back(std::move(connection));
}

void UcxConnections::forget_closed() {
  const auto oldest = std::chrono::steady_clock::now() - closed_limit;
  std::erase_if(closed_, [oldest](const auto& connection) {
    if (connection->closed > oldest) return false;
    if (connection->closing == nullptr) return true;
    if (ucp_request_check_status(connection->closing) == UCS_INPROGRESS) return false;
    ucp_request_free(connection->closing);
    return true;
  });
}

void UcxConnections::close_all() {
  for (auto& [process, connection] : std::exchange(open_, {})) close(std::move(connection));
  for (const auto& connection : closed_) {
    if (connection->closing != nullptr) ucp_request_free(std::exchange(connection->closing, nullptr));
  }
}

}  // namespace pipetrain
