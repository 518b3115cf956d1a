#include "comm/controlled/controlled_transport.hpp"

#include <chrono>
#include <set>

#include "core/error.hpp"

namespace pipetrain {
namespace {

constexpr std::chrono::seconds closing_limit{3};  // a process that ends after a failure sends no farewell

}  // namespace

ControlledTransport::ControlledTransport(ControlPlane& control, const Mesh& mesh) : control_(control), mesh_(mesh) {}

void ControlledTransport::listen() {
  control_.on_message(Channel::transport, [this](int from, std::span<const std::byte> message) { handle(from, message); });
}

void ControlledTransport::stop_listening() noexcept {
  try {
    control_.on_message(Channel::transport, {});
  } catch (...) {  // it is gone, and calls nobody
  }
}

// --- Set-up ---------------------------------------------------------------------------------------------------------------

void ControlledTransport::open_edges(std::vector<EdgeReceiver> receivers, std::vector<EdgeSender> senders) {
  if (edges()) throw Error(ErrorKind::internal, "edges are opened twice");
  auto edges = std::make_shared<Edges>(std::move(receivers), std::move(senders));
  farewells_.begin_generation();
  const Bytes offers = edges->offers(introduce(*edges), [this](const EdgeReceiver& receiver) { return offer(receiver); });
  edges->take_offers(control_.exchange("edges " + std::to_string(farewells_.generation()), offers), control_);
  std::string failure;
  try {
    connect(*edges);
  } catch (const std::exception& error) {
    failure = error.what();
  }
  mirroring_.store(edges);
  edges_.store(edges);
  // No process may send before all have connected; where one cannot connect, all get its failure.
  WireWriter mine;
  mine.text(failure);
  const auto outcomes = control_.exchange("edges connected " + std::to_string(farewells_.generation()), std::move(mine).data());
  for (std::size_t process = 0; process < outcomes.size(); ++process) {
    const std::string why = WireReader(outcomes[process]).text();
    if (why.empty()) continue;
    edges_.store(nullptr);
    disconnect(*edges);
    mirroring_.store(nullptr);
    disconnected();
    throw Error(ErrorKind::unavailable, to_string(control_.info(static_cast<int>(process))) + ": " + why);
  }
  connected(*edges);
}

void ControlledTransport::close_edges() noexcept {
  const auto edges = edges_.exchange(nullptr);
  if (!edges) return;
  { const std::lock_guard none_running(handling_); }
  disconnect(*edges);
  mirroring_.store(nullptr);
  const std::set<int> others = edges->neighbours();
  try {
    for (const int process : others) send_to(process, begin_edge_message(MessageKind::closed));
  } catch (...) {  // out of memory: the others wait until their time limit
  }
  farewells_.wait_for(others, control_, closing_limit);
  disconnected();
}

const std::vector<SlotHandle>& ControlledTransport::mirrors(EdgeId edge) const {
  const auto open = mirroring_.load();
  const auto found = open ? open->senders.find(edge) : decltype(open->senders.find(edge)){};
  if (!open || found == open->senders.end())
    throw Error(ErrorKind::internal, "edge " + std::to_string(edge) + " has no mirrors here");
  return found->second.mirrors;
}

// --- In steps -------------------------------------------------------------------------------------------------------------

void ControlledTransport::deliver(EdgeId edge, int slot, int microbatch) {
  const auto open = edges();
  if (!open || aborted_) return;
  Sender& sender = open->senders.at(edge);
  const Slot& mirror = *sender.mirrors.at(static_cast<std::size_t>(slot));
  Delivery delivery{edge, slot, microbatch, {}, mirror.note};
  for (const Lane& lane : mirror.lanes) delivery.lanes.push_back({lane.tensor.shape, 0});
  send(open, sender, std::move(delivery));
}

WireWriter ControlledTransport::begin_edge_message(MessageKind kind) const {
  WireWriter message;
  message.number(kind);
  message.number(farewells_.generation());
  return message;
}

void ControlledTransport::announce(const Sender& sender, const Delivery& delivery) {
  WireWriter message = begin_edge_message(MessageKind::delivery);
  write_message(message, delivery);
  send_to(sender.edge.to, std::move(message));
}

void ControlledTransport::announce_posted(const EdgeReceiver& receiver, int slot) {
  WireWriter message = begin_edge_message(MessageKind::posted);
  write_message(message, SlotCredit{receiver.edge, slot, {}});
  send_to(receiver.from, std::move(message));
}

void ControlledTransport::give_credit(EdgeId edge, int slot) {
  const auto open = edges();
  if (!open || aborted_) return;
  EdgeReceiver& receiver = open->receivers.at(edge);
  give(open, receiver, {edge, slot, {}});
}

void ControlledTransport::announce(const EdgeReceiver& receiver, const SlotCredit& credit) {
  WireWriter message = begin_edge_message(MessageKind::credit);
  write_message(message, credit);
  send_to(receiver.from, std::move(message));
}

void ControlledTransport::handle(int from, std::span<const std::byte> message) {
  const std::lock_guard one_at_a_time(handling_);
  try {
    WireReader in(message);
    const auto kind = in.choice(MessageKind::group);
    if (kind == MessageKind::group) return group_message(from, in);
    const auto generation = in.number<std::uint32_t>();
    if (kind == MessageKind::closed) return farewells_.add(from, generation);
    if (generation != farewells_.generation()) return;
    if (aborted_) return;
    kind == MessageKind::delivery ? handle_delivery(from, in) : handle_credit(from, in, kind == MessageKind::posted);
  } catch (const std::exception& error) {
    lose(from, error.what());
  }
}

void ControlledTransport::handle_delivery(int from, WireReader& in) {
  const Delivery delivery = read_message<Delivery>(in);
  in.end();
  if (const auto open = edges()) land(open, open->accept(delivery, from), delivery);
}

void ControlledTransport::handle_credit(int from, WireReader& in, bool posted) {
  const SlotCredit credit = read_message<SlotCredit>(in);
  in.end();
  const auto open = posted ? mirroring_.load() : edges();  // deliveries from before the edges were closed are sent
  if (!open) return;
  Sender& sender = open->accept(credit, from);
  posted ? this->posted(open, sender, credit.slot) : take(open, sender, credit);
}

// --- Failures -------------------------------------------------------------------------------------------------------------

void ControlledTransport::abort(std::exception_ptr cause) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (cause_) return;
    cause_ = cause;
    aborted_ = true;
  }
  farewells_.look_again();
  on_abort(cause);
}

std::exception_ptr ControlledTransport::cause() const {
  const std::lock_guard lock(mutex_);
  return cause_;
}

WireWriter ControlledTransport::begin_group_message() {
  WireWriter message;
  message.number(MessageKind::group);
  return message;
}

void ControlledTransport::send_to(int process, WireWriter message) {
  control_.send(process, Channel::transport, std::move(message).data());
}

}  // namespace pipetrain
