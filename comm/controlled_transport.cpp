#include "comm/controlled_transport.hpp"

#include <chrono>
#include <utility>

#include "core/error.hpp"

namespace pipetrain {
namespace {

constexpr std::chrono::seconds closing_limit{3};  // a process that ends after a failure sends no farewell

std::string edge_name(EdgeId edge) { return "edge " + std::to_string(edge); }

void check_lanes(const Delivery& delivery, const Slot& slot) {
  if (delivery.lanes.size() != slot.lanes.size()) WireReader::refuse("another number of lanes than the slot");
  for (std::size_t i = 0; i < slot.lanes.size(); ++i) {
    const Lane& lane = slot.lanes[i];
    if (static_cast<std::size_t>(delivery.lanes[i].shape.elements()) * size_of(lane.tensor.dtype) > lane.capacity) {
      WireReader::refuse("a shape that the slot has no room for");
    }
  }
}

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
  auto edges = std::make_shared<Edges>();
  for (EdgeReceiver& receiver : receivers) {
    const EdgeId id = receiver.edge;
    edges->receivers.emplace(id, std::move(receiver));
  }
  for (EdgeSender& sender : senders) {
    const EdgeId id = sender.edge;
    edges->senders[id].edge = std::move(sender);
  }
  {
    const std::lock_guard lock(mutex_);
    ++generation_;
    closed_.clear();
  }
  exchange_offers(*edges);
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
  const auto outcomes = control_.exchange("edges connected " + std::to_string(generation_.load()), std::move(mine).data());
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

void ControlledTransport::exchange_offers(Edges& edges) {
  WireWriter mine;
  mine.bytes(introduce(edges));
  mine.list(edges.receivers, [&](const auto& entry) {
    EdgeOffer described = describe(entry.second);
    described.extra = offer(entry.second);
    write(mine, described);
  });
  const auto all = control_.exchange("edges " + std::to_string(generation_.load()), std::move(mine).data());
  for (std::size_t process = 0; process < all.size(); ++process) {
    WireReader in(all[process]);
    const auto introduction = in.bytes();
    edges.introductions.emplace_back(introduction.begin(), introduction.end());
    for (std::size_t left = in.count(16); left > 0; --left) {
      EdgeOffer offered = read_edge_offer(in);
      const auto sender = edges.senders.find(offered.edge);
      if (sender == edges.senders.end() || sender->second.edge.to != static_cast<int>(process)) continue;
      if (offered.from != control_.process()) WireReader::refuse("an edge from another process");
      sender->second.offer = std::move(offered);
    }
    in.end();
  }
  for (const auto& [id, sender] : edges.senders) {
    if (sender.offer.slots.empty()) {
      throw Error(ErrorKind::internal,
                  edge_name(id) + ": " + to_string(control_.info(sender.edge.to)) + " does not receive from it");
    }
    for (const auto& lanes : sender.offer.slots) {
      if (lanes.size() != sender.edge.devices.size()) {
        throw Error(ErrorKind::internal, edge_name(id) + " has " + std::to_string(lanes.size()) + " lanes for " +
                                             std::to_string(sender.edge.devices.size()) + " senders");
      }
    }
  }
}

void ControlledTransport::close_edges() noexcept {
  const auto edges = edges_.exchange(nullptr);
  if (!edges) return;
  { const std::lock_guard none_running(handling_); }
  disconnect(*edges);
  mirroring_.store(nullptr);
  const std::set<int> others = neighbours(*edges);
  try {
    for (const int process : others) {
      send_to(process, begin_edge_message(MessageKind::closed));
    }
  } catch (...) {  // out of memory: the others wait until their time limit
  }
  wait_for_closed(others);
  disconnected();
}

void ControlledTransport::wait_for_closed(const std::set<int>& processes) noexcept {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, closing_limit, [&] {
    for (const int process : processes) {
      if (closed_.count(process) == 0 && !control_.is_gone(process)) return false;
    }
    return true;
  });
}

std::set<int> ControlledTransport::neighbours(const Edges& edges) const {
  std::set<int> processes;
  for (const auto& [id, receiver] : edges.receivers) processes.insert(receiver.from);
  for (const auto& [id, sender] : edges.senders) processes.insert(sender.edge.to);
  return processes;
}

const std::vector<SlotHandle>& ControlledTransport::mirrors(EdgeId edge) const {
  const auto open = mirroring_.load();
  const auto found = open ? open->senders.find(edge) : decltype(open->senders.find(edge)){};
  if (!open || found == open->senders.end()) throw Error(ErrorKind::internal, edge_name(edge) + " has no mirrors here");
  return found->second.mirrors;
}

// --- In steps -------------------------------------------------------------------------------------------------------------

void ControlledTransport::deliver(EdgeId edge, int slot, int microbatch) {
  const auto open = edges();
  if (!open || aborted_) return;
  Sender& sender = open->senders.at(edge);
  const Slot& mirror = *sender.mirrors.at(static_cast<std::size_t>(slot));
  Delivery delivery{edge, slot, microbatch, {}, mirror.note};
  for (const Lane& lane : mirror.lanes) {
    delivery.lanes.push_back({lane.tensor.shape, 0});
  }
  send(open, sender, std::move(delivery));
}

WireWriter ControlledTransport::begin_edge_message(MessageKind kind) const {
  WireWriter message;
  message.number(kind);
  message.number(generation_.load());
  return message;
}

void ControlledTransport::announce(const Sender& sender, const Delivery& delivery) {
  WireWriter message = begin_edge_message(MessageKind::delivery);
  write(message, delivery);
  send_to(sender.edge.to, std::move(message));
}

void ControlledTransport::announce_posted(const EdgeReceiver& receiver, int slot) {
  WireWriter message = begin_edge_message(MessageKind::posted);
  write(message, SlotCredit{receiver.edge, slot, {}});
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
  write(message, credit);
  send_to(receiver.from, std::move(message));
}

void ControlledTransport::handle(int from, std::span<const std::byte> message) {
  const std::lock_guard one_at_a_time(handling_);
  try {
    WireReader in(message);
    const auto kind = in.choice(MessageKind::group);
    if (kind == MessageKind::group) return group_message(from, in);
    const auto generation = in.number<std::uint32_t>();
    {
      const std::lock_guard lock(mutex_);
      if (generation != generation_) return;
      if (kind == MessageKind::closed) {
        closed_.insert(from);
        changed_.notify_all();
        return;
      }
    }
    if (aborted_) return;
    kind == MessageKind::delivery ? handle_delivery(from, in) : handle_credit(from, in, kind == MessageKind::posted);
  } catch (const std::exception& error) {
    lose(from, error.what());
  }
}

void ControlledTransport::handle_delivery(int from, WireReader& in) {
  const Delivery delivery = read_delivery(in);
  in.end();
  const auto open = edges();
  if (!open) return;
  const auto found = open->receivers.find(delivery.edge);
  if (found == open->receivers.end() || found->second.from != from) WireReader::refuse("an edge that is not its own");
  EdgeReceiver& receiver = found->second;
  const auto slot = static_cast<std::size_t>(delivery.slot);
  if (delivery.slot < 0 || slot >= receiver.slots.size()) WireReader::refuse("a slot that is not in the edge");
  check_lanes(delivery, *receiver.slots[slot]);
  for (std::size_t i = 0; i < delivery.lanes.size(); ++i) {
    receiver.slots[slot]->lanes[i].tensor.shape = delivery.lanes[i].shape;
  }
  receiver.slots[slot]->note = delivery.note;
  land(open, receiver, delivery);
}

void ControlledTransport::handle_credit(int from, WireReader& in, bool posted) {
  const SlotCredit credit = read_slot_credit(in);
  in.end();
  const auto open = posted ? mirroring_.load() : edges();  // deliveries from before the edges were closed are sent
  if (!open) return;
  const auto found = open->senders.find(credit.edge);
  if (found == open->senders.end() || found->second.edge.to != from) WireReader::refuse("an edge that is not its own");
  if (credit.slot < 0 || static_cast<std::size_t>(credit.slot) >= found->second.mirrors.size()) {
    WireReader::refuse("a slot that is not in the edge");
  }
  posted ? this->posted(open, found->second, credit.slot) : take(open, found->second, credit);
}

// --- Failures -------------------------------------------------------------------------------------------------------------

void ControlledTransport::on_lost(ControlPlane::OnLost handler) {
  const std::lock_guard lock(mutex_);
  lost_ = std::move(handler);
}

void ControlledTransport::lose(int process, const std::string& why) {
  ControlPlane::OnLost handler;
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(has_lost_, true)) return;
    handler = lost_;
  }
  if (handler) handler(process, why);
}

void ControlledTransport::abort(std::exception_ptr cause) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (cause_) return;
    cause_ = cause;
    aborted_ = true;
    changed_.notify_all();
  }
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
