// The common part of the transports between GPUs: edges whose deliveries and credits are messages of the control plane.
// A message may leave when its work is enqueued, or when that is done; the data takes another way, on the GPUs.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "comm/controlled/controlled_edges.hpp"
#include "comm/controlled/edge_farewells.hpp"
#include "comm/controlled/loss_report.hpp"

namespace pipetrain {

class ControlledTransport : public Transport {
 public:
  void open_edges(std::vector<EdgeReceiver> receivers, std::vector<EdgeSender> senders) final;
  void close_edges() noexcept final;
  const std::vector<SlotHandle>& mirrors(EdgeId edge) const final;
  void deliver(EdgeId edge, int slot, int microbatch) final;
  void give_credit(EdgeId edge, int slot) final;
  void on_lost(ControlPlane::OnLost handler) final { losses_.set_handler(std::move(handler)); }
  void abort(std::exception_ptr cause) noexcept final;

 protected:
  using Sender = ControlledSender;
  using Edges = ControlledEdges;

  ControlledTransport(ControlPlane& control, const Mesh& mesh);
  // Derived classes call listen() at the end of their constructors and stop_listening() first in their destructors:
  // messages are handled in between.
  void listen();
  void stop_listening() noexcept;

  // --- set-up; on the caller's thread ---
  // Return the data that this process sends to all others before its edges are connected: once, and for each edge that
  // it receives from.
  virtual Bytes introduce(const Edges& edges) = 0;
  virtual Bytes offer(const EdgeReceiver& receiver) = 0;
  virtual void connect(Edges& edges) = 0;
  // Called when all processes have connected.
  virtual void connected(Edges&) {}
  // When it returns, nothing of this process touches others' memory; takes bounded time.
  virtual void disconnect(Edges& edges) noexcept = 0;
  // Called when all processes have disconnected, or do not answer.
  virtual void disconnected() noexcept {}

  // --- in steps ---
  // Handles a delivered mirror; must call announce(), at once or later.
  virtual void send(const std::shared_ptr<Edges>& edges, Sender& sender, Delivery delivery) = 0;
  // Handles a received delivery, whose slot, shapes and number of lanes have been checked; must call receiver.arrived().
  virtual void land(const std::shared_ptr<Edges>& edges, EdgeReceiver& receiver, const Delivery& delivery) = 0;
  // Handles a freed slot of an edge that this process receives from; must call announce(), at once or later.
  virtual void give(const std::shared_ptr<Edges>&, EdgeReceiver& receiver, SlotCredit credit) { announce(receiver, credit); }
  // Called when the other end has called announce_posted().
  virtual void posted(const std::shared_ptr<Edges>&, Sender&, int /*slot*/) {}
  // Handles a received credit; must call sender.edge.credit().
  virtual void take(const std::shared_ptr<Edges>& edges, Sender& sender, const SlotCredit& credit) = 0;
  // Handles a message of another process about groups.
  virtual void group_message(int from, WireReader& in) = 0;
  virtual void on_abort(const std::exception_ptr& cause) noexcept = 0;

  ControlPlane& control() const { return control_; }
  const Mesh& mesh() const { return mesh_; }
  bool aborted() const { return aborted_; }
  std::exception_ptr cause() const;
  std::shared_ptr<Edges> edges() const { return edges_.load(); }
  // Sends the message of a delivery, for which the other end's land() is called.
  void announce(const Sender& sender, const Delivery& delivery);
  // Sends the message of a credit, for which the other end's take() is called.
  void announce(const EdgeReceiver& receiver, const SlotCredit& credit);
  // Tells the producer that this slot's data may be sent now.
  void announce_posted(const EdgeReceiver& receiver, int slot);
  // Begins a message whose remaining bytes group_message() of another process gets.
  static WireWriter begin_group_message();
  void send_to(int process, WireWriter message);
  // Calls the handler of on_lost(), the first time only.
  void lose(int process, const std::string& why) { losses_.lose(process, why); }

 private:
  enum class MessageKind : std::uint8_t { delivery, posted, credit, closed, group };

  ControlPlane& control_;
  const Mesh& mesh_;
  std::atomic<std::shared_ptr<Edges>> edges_;  // null while none are open
  // The same, kept until no callback runs any more: callbacks may call mirrors().
  std::atomic<std::shared_ptr<Edges>> mirroring_;
  std::atomic<bool> aborted_{false};
  EdgeFarewells farewells_;  // messages of other generations of edges are dropped
  LossReport losses_;

  mutable std::mutex mutex_;  // guards cause_
  std::exception_ptr cause_;
  std::mutex handling_;  // held while a message is handled

  void handle(int from, std::span<const std::byte> message);
  void handle_delivery(int from, WireReader& in);
  void handle_credit(int from, WireReader& in, bool posted);
  WireWriter begin_edge_message(MessageKind kind) const;
};

}  // namespace pipetrain
