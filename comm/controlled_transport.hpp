// What the transports between GPUs share: edges whose deliveries and credits are messages of the control plane. They may leave
// as soon as the work that they speak of is enqueued, or once it is done; the data goes another way, on the GPUs.
#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "comm/edge_messages.hpp"
#include "comm/transport.hpp"

namespace pipetrain {

class ControlledTransport : public Transport {
 public:
  void open_edges(std::vector<EdgeReceiver> receivers, std::vector<EdgeSender> senders) final;
  void close_edges() noexcept final;
  const std::vector<SlotHandle>& mirrors(EdgeId edge) const final;
  void deliver(EdgeId edge, int slot, int microbatch) final;
  void give_credit(EdgeId edge, int slot) final;
  void on_lost(ControlPlane::OnLost handler) final;
  void abort(std::exception_ptr cause) noexcept final;

 protected:
  struct Sender {
    EdgeSender edge;
    EdgeOffer offer;
    std::vector<SlotHandle> mirrors;  // what connect() makes of them
  };
  struct Edges {
    std::map<EdgeId, EdgeReceiver> receivers;
    std::map<EdgeId, Sender> senders;
    std::vector<Bytes> introductions;  // by process
  };

  ControlledTransport(ControlPlane& control, const Mesh& mesh);
  // Derived classes call the one when they are made, the other first in their destructors: messages are handled in between.
  void listen();
  void stop_listening() noexcept;

  // --- set-up; on the caller's thread ---
  // What this process tells all others before its edges are connected, and of each edge that it receives from.
  virtual Bytes introduce(const Edges& edges) = 0;
  virtual Bytes offer(const EdgeReceiver& receiver) = 0;
  virtual void connect(Edges& edges) = 0;
  // All processes have connected.
  virtual void connected(Edges&) {}
  // Nothing of this process touches others' memory when it returns; in bounded time.
  virtual void disconnect(Edges& edges) noexcept = 0;
  // All processes have disconnected, or do not answer.
  virtual void disconnected() noexcept {}

  // --- in steps ---
  // A mirror is delivered: ends in tell(), at once or later.
  virtual void send(const std::shared_ptr<Edges>& edges, Sender& sender, Delivery delivery) = 0;
  // A delivery has come; its slot, shapes and number of lanes are sound. Ends in receiver.arrived().
  virtual void land(const std::shared_ptr<Edges>& edges, EdgeReceiver& receiver, const Delivery& delivery) = 0;
  // A slot of an edge that this process receives from is given back. Ends in tell(), at once or later.
  virtual void give(const std::shared_ptr<Edges>&, EdgeReceiver& receiver, SlotCredit credit) { tell(receiver, credit); }
  // The other end has called tell_posted().
  virtual void posted(const std::shared_ptr<Edges>&, Sender&, int /*slot*/) {}
  // Ends in sender.edge.credit().
  virtual void take(const std::shared_ptr<Edges>& edges, Sender& sender, const SlotCredit& credit) = 0;
  // A message about groups has come from a process.
  virtual void group_message(int from, WireReader& in) = 0;
  virtual void on_abort(const std::exception_ptr& cause) noexcept = 0;

  ControlPlane& control() const { return control_; }
  const Mesh& mesh() const { return mesh_; }
  bool aborted() const { return aborted_; }
  std::exception_ptr cause() const;
  std::shared_ptr<Edges> edges() const { return edges_.load(); }
  // Sends the message of a delivery. The other end's land() is called.
  void tell(const Sender& sender, const Delivery& delivery);
  // Sends the message of a credit. The other end's take() is called.
  void tell(const EdgeReceiver& receiver, const SlotCredit& credit);
  // Tells the producer that this slot's data may be sent now.
  void tell_posted(const EdgeReceiver& receiver, int slot);
  // Begins a message that group_message() of another process gets the rest of.
  static WireWriter begin_group_message();
  void send_to(int process, WireWriter message);
  // Calls the handler of on_lost(), the first time.
  void lose(int process, const std::string& why);

 private:
  enum class MessageKind : std::uint8_t { delivery, posted, credit, closed, group };

  ControlPlane& control_;
  const Mesh& mesh_;
  std::atomic<std::shared_ptr<Edges>> edges_;      // null while none are open
  std::atomic<std::shared_ptr<Edges>> mirroring_;  // the same, until nobody is called any more: mirrors() may be asked there
  std::atomic<bool> aborted_{false};
  std::atomic<std::uint32_t> generation_{0};  // of edges: messages of others are dropped

  mutable std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  std::set<int> closed_;  // processes that have closed the edges of this generation
  std::exception_ptr cause_;
  ControlPlane::OnLost lost_;
  bool has_lost_ = false;
  std::mutex handling_;  // held while a message is handled

  void handle(int from, std::span<const std::byte> message);
  void handle_delivery(int from, WireReader& in);
  void handle_credit(int from, WireReader& in, bool posted);
  WireWriter begin_edge_message(MessageKind kind) const;
  std::set<int> neighbours(const Edges& edges) const;
  void exchange_offers(Edges& edges);
  void wait_for_closed(const std::set<int>& processes) noexcept;
};

}  // namespace pipetrain
