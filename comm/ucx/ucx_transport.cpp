#include "comm/ucx/ucx_transport.hpp"

#include <algorithm>
#include <utility>

#include "comm/ucx/ucx_edges.hpp"
#include "comm/ucx/ucx_groups.hpp"
#include "comm/ucx/ucx_net_devices.hpp"
#include "comm/ucx/ucx_peers.hpp"
#include "comm/ucx/ucx_worker.hpp"
#include "core/error.hpp"

namespace pipetrain {

bool has_ucx() noexcept { return true; }

std::unique_ptr<Transport> make_ucx_transport(ControlPlane& control, const Mesh& mesh) {
  return std::make_unique<UcxTransport>(control, mesh);
}

namespace {

// Processes of one machine need no network, on which UCX would listen. UCX treats processes of one kernel and IPC
// namespace as near and joins them by shared memory, but its wake-ups do not cross network namespaces: they would wait
// for ever. A context has the same transports for all its connections.
UcxWorker::Reach reach_of(const ControlPlane& control) {
  using Ways = UcxWorker::Reach::Ways;
  const ProcessInfo& own = control.info(control.process());
  bool one_machine = !own.machine.empty(), falsely_near = false;
  for (int process = 0; process < control.processes(); ++process) {
    const ProcessInfo& other = control.info(process);
    const bool seems_near = !own.memory_scope.empty() && other.memory_scope == own.memory_scope;
    one_machine = one_machine && other.machine == own.machine;
    falsely_near = falsely_near || (seems_near && other.machine != own.machine);
  }
  return {.ways = one_machine    ? Ways::shared_memory
                  : falsely_near ? Ways::network
                                 : Ways::all,
          .net_devices = ucx_net_devices(own.address)};
}

}  // namespace

UcxTransport::UcxTransport(ControlPlane& control, const Mesh& mesh)
    : mesh_(mesh),
      process_(control.process()),
      worker_(std::make_shared<UcxWorker>(reach_of(control))),
      peers_(std::make_shared<UcxPeers>(*worker_, control)),
      edges_(std::make_unique<UcxEdges>(*worker_, *peers_, control)),
      groups_(std::make_unique<UcxGroups>(worker_, peers_, control, mesh)) {
  peers_->join();
}

UcxTransport::~UcxTransport() {
  edges_->close();
  peers_->leave();  // while the others' messages still find handlers
}

void UcxTransport::open_edges(std::vector<EdgeReceiver> receivers, std::vector<EdgeSender> senders) {
  edges_->open(std::move(receivers), std::move(senders));
}

void UcxTransport::close_edges() noexcept { edges_->close(); }

const std::vector<SlotHandle>& UcxTransport::mirrors(EdgeId edge) const { return edges_->mirrors(edge); }

std::map<int, std::shared_ptr<Group>> UcxTransport::group(const std::vector<int>& ranks, std::uint32_t number,
                                                          const std::map<int, Device*>& devices, GroupUse) {
  const auto here = [this](int rank) { return mesh_.place(rank).process == process_; };
  if (ranks.size() < 2 || std::none_of(ranks.begin(), ranks.end(), here)) return {};
  if (!std::all_of(ranks.begin(), ranks.end(), here)) return groups_->make(ranks, number, devices);
  throw Error(ErrorKind::internal, "a group of ranks that all run in process " + std::to_string(process_) +
                                       " needs no transport: World::group makes it");
}

Buffer UcxTransport::slot_memory(Device& device, std::size_t bytes, const std::string& what) {
  return edges_->slot_memory(device, bytes, what);
}

// A mirror is memory that this process writes.
LinkKind UcxTransport::link(int, int) const { return LinkKind::same_memory; }

void UcxTransport::deliver(EdgeId edge, int slot, int microbatch) { edges_->deliver(edge, slot, microbatch); }

void UcxTransport::give_credit(EdgeId edge, int slot) { edges_->give_credit(edge, slot); }

void UcxTransport::on_lost(ControlPlane::OnLost handler) { peers_->on_lost(std::move(handler)); }

void UcxTransport::abort(std::exception_ptr cause) noexcept { peers_->abort(std::move(cause)); }

std::uint64_t UcxTransport::dropped() const { return peers_->dropped(); }

}  // namespace pipetrain
