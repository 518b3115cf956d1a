// The transport over NCCL: nccl_edge_ends.cpp sets its edges up, nccl_transfers.cpp moves data in steps. NCCL builds only.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "comm/controlled/controlled_transport.hpp"
#include "comm/cuda/gpu_groups.hpp"
#include "comm/cuda/ipc_group.hpp"
#include "comm/nccl/nccl_comms.hpp"
#include "comm/nccl/nccl_edge_ends.hpp"
#include "comm/nccl/nccl_groups.hpp"
#include "comm/nccl/nccl_loopback.hpp"
#include "comm/nccl/nccl_transport.hpp"
#include "comm/task_thread.hpp"

namespace pipetrain {

class NcclTransport final : public ControlledTransport {
 public:
  NcclTransport(ControlPlane& control, const Mesh& mesh, NcclWay way)
      : ControlledTransport(control, mesh),
        loopback_(control),
        groups_(control, mesh, comms_, sender_of(GroupKind::nccl)),
        tensor_groups_(mesh, control.process(), sender_of(GroupKind::ipc)),
        ends_(control, mesh, comms_, way),
        thread_([this] { watch(); }, watch_interval) {
    listen();
  }
  ~NcclTransport() override { stop_listening(); }

  std::map<int, std::shared_ptr<Group>> group(const std::vector<int>& ranks, std::uint32_t number,
                                              const std::map<int, Device*>& devices, GroupUse use) override {
    if (!is_tensor_group(mesh(), ranks)) return groups_.make(ranks, number, devices, use);
    require_one_host(control(), mesh(), ranks);
    return tensor_groups_.make(ranks, number, devices);
  }
  std::size_t group_memory(int ranks) const override { return nccl_group_memory(ranks); }
  Buffer slot_memory(Device& device, std::size_t bytes, const std::string& what) override {
    return ends_.slot_memory(device, bytes, what);
  }
  std::string description() const override { return ends_.description(); }
  // The mirrors are this process's own memory.
  LinkKind link(int, int) const override { return LinkKind::same_memory; }

 private:
  enum class GroupKind : std::uint8_t { nccl, ipc };  // the receiver of a message about groups

  NcclLoopback loopback_;  // before any use of NCCL
  NcclComms comms_;
  NcclGroups groups_;
  IpcGroups tensor_groups_;  // each on one host, where its kernels reach the others' memory
  NcclEdgeEnds ends_;
  std::atomic<int> unsent_{0};        // delivered mirrors that have not been sent
  std::atomic<bool> closing_{false};  // transfers that still wait are dropped
  TaskThread thread_;                 // runs all transfers of edges; the last member, because it uses the others

  static constexpr std::chrono::milliseconds watch_interval{100};
  bool over() const { return aborted() || closing_; }
  void watch();

  // --- Set-up -------------------------------------------------------------------------------------------------------------

  Bytes introduce(const Edges&) override { return ends_.introduce(); }
  Bytes offer(const EdgeReceiver& receiver) override { return ends_.offer(receiver); }
  void connect(Edges& edges) override;
  void disconnect(Edges& edges) noexcept override;
  void disconnected() noexcept override { ends_.clear(); }

  // --- In steps -----------------------------------------------------------------------------------------------------------

  void send(const std::shared_ptr<Edges>& edges, Sender& sender, Delivery delivery) override;
  void put(const std::shared_ptr<Edges>& edges, Sender& sender, const Delivery& delivery);
  void announce_put(const std::shared_ptr<Edges>& edges, Sender& sender, const Delivery& delivery);
  void land(const std::shared_ptr<Edges>& edges, EdgeReceiver& receiver, const Delivery& delivery) override;
  void take_put(const std::shared_ptr<Edges>& edges, EdgeReceiver& receiver, const Delivery& delivery);
  void give(const std::shared_ptr<Edges>& edges, EdgeReceiver& receiver, SlotCredit credit) override;
  void posted(const std::shared_ptr<Edges>& edges, Sender& sender, int number) override;
  void take(const std::shared_ptr<Edges>& edges, Sender& sender, const SlotCredit& credit) override;
  void group_message(int from, WireReader& in) override {
    const GroupKind kind = in.choice(GroupKind::ipc);
    WireReader message(in.bytes());
    in.end();
    if (kind == GroupKind::ipc) return tensor_groups_.handle(from, message);
    groups_.handle(message);
  }
  std::function<void(int, const Bytes&)> sender_of(GroupKind kind) {
    return [this, kind](int process, const Bytes& message) {
      WireWriter out = begin_group_message();
      out.number(kind);
      out.bytes(message);
      send_to(process, std::move(out));
    };
  }
  void on_abort(const std::exception_ptr& cause) noexcept override {
    groups_.abort(cause);
    tensor_groups_.abort(cause);
    comms_.abort();
  }
};

}  // namespace pipetrain
