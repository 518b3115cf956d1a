#include "comm/ucx/ucx_edges.hpp"

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "comm/ucx/ucx_edge_table.hpp"
#include "comm/ucx/ucx_header.hpp"
#include "core/cpu_stream.hpp"
#include "core/error.hpp"

namespace pipetrain {
namespace {

// How long close() waits for messages in flight before it cuts the connections.
constexpr std::chrono::seconds still_edge_limit{1};
// How long it waits after that: a connection that was cut brings nothing more.
constexpr std::chrono::seconds cut_limit{3};

// Runs the work once the event, if there is one, has been reached.
void after(const std::shared_ptr<Event>& event, std::function<void()> work) {
  if (event) {
    when_complete(*event, std::move(work));
  } else {
    work();
  }
}

// True when this message may fill that lane now.
bool fits(const UcxReceivingEdge& edge, const UcxDataHeader& header, std::size_t bytes) {
  if (header.slot >= edge.states.size()) return false;
  const auto& state = edge.states[header.slot];
  if (header.lane >= state.begun.size() || state.begun[header.lane] || state.held) return false;
  const bool first = state.left == 0;
  if (header.filling != state.fillings + (first ? 1 : 0) || (!first && header.microbatch != state.microbatch)) return false;
  const auto& lanes = edge.end.slots[header.slot]->lanes;
  if (lanes.empty()) return bytes == 0;
  const Lane& lane = lanes[header.lane];
  const auto content = bytes_of(header.shape, header.dtype);
  if (header.dtype != lane.tensor.dtype || !content || *content > lane.capacity) return false;
  return header.in_place ? edge.shared && bytes == 0 : bytes == *content;
}

}  // namespace

UcxEdges::UcxEdges(UcxWorker& worker, UcxPeers& peers, ControlPlane& control)
    : worker_(worker), peers_(peers), control_(control) {
  peers_.on_message(UcxMessage::data, [this](auto header, UcxPayload& payload) { take_data(header, payload); });
  peers_.on_message(UcxMessage::credit, [this](auto header, UcxPayload&) { take_credit(header); });
}

UcxEdges::~UcxEdges() { close(); }

// --- set-up ---

void UcxEdges::open(std::vector<EdgeReceiver> receivers, std::vector<EdgeSender> senders) {
  close();
  const std::string name = "ucx edges " + std::to_string(++generation_);
  const NameOfLane name_of = [this](const Lane& lane) { return slots_.name_of(lane.tensor.data, lane.capacity); };
  const auto described = control_.exchange(name, describe_edges(receivers, senders, name_of));
  auto table = make_edge_table(control_, described, std::move(receivers), std::move(senders));
  table->generation = generation_;
  for (auto& [id, edge] : table->receiving) edge.shared = is_shared(edge.end, name_of);
  const std::set<int> others = table->peers();
  worker_.call([&] {
    register_memory(*table);
    current_ = table;
  });
  {
    const std::lock_guard lock(mutex_);
    table_ = table;
  }
  peers_.connect(others);
  const auto mirrors = mirrors_for(control_.process(), control_.exchange(name + " connect", describe_mirrors(*table)));
  worker_.call([&] {
    for (const auto& [process, memory] : mirrors) peers_.map_memory(process, memory);
  });
  control_.exchange(name + " mapped", {});
  for (auto& [id, edge] : table->sending) {
    for (SharedBuffer& buffer : edge.buffers) buffer.file.close();
  }
  peers_.wait_connected(others);
}

void UcxEdges::register_memory(UcxEdgeTable& table) {
  for (auto& [id, edge] : table.receiving) {
    for (std::size_t slot = 0; slot < edge.states.size(); ++slot) {
      for (const Lane& lane : edge.end.slots[slot]->lanes) {
        edge.states[slot].memory.push_back(std::make_unique<UcxMemory>(worker_, lane.tensor.data, lane.capacity));
      }
    }
  }
  for (auto& [id, edge] : table.sending) {
    for (const SharedBuffer& buffer : edge.buffers) {
      edge.memory.push_back(std::make_unique<UcxMemory>(worker_, buffer.memory.data(), buffer.memory.bytes()));
    }
  }
}

void UcxEdges::close() noexcept {
  std::shared_ptr<UcxEdgeTable> table;
  {
    const std::lock_guard lock(mutex_);
    table = std::exchange(table_, nullptr);
  }
  if (!table) return;
  {
    const std::lock_guard lock(table->gate);
    table->open = false;
  }
  worker_.call([&] {
    table->closed = true;
    current_ = nullptr;
  });
  wait_until_still(*table);
  worker_.call([&] {
    peers_.unmap_memory();
    for (auto& [id, edge] : table->receiving) edge.states.clear();
    for (auto& [id, edge] : table->sending) edge.memory.clear();
  });
}

// A message can stay in flight for ever only where the other process has stopped working: its connection is then cut.
void UcxEdges::wait_until_still(UcxEdgeTable& table) noexcept {
  const auto limit = std::chrono::steady_clock::now() + still_edge_limit;
  for (bool still = false, cut = false; !still;) {
    worker_.call([&] {
      still = table.is_still();
      if (still || cut || std::chrono::steady_clock::now() < limit) return;
      cut = true;
      for (const auto& [process, messages] : table.moving) {
        if (messages > 0) peers_.cut(process);
      }
    });
    if (std::chrono::steady_clock::now() > limit + cut_limit) return;
    if (!still) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

std::shared_ptr<UcxEdgeTable> UcxEdges::table() const {
  const std::lock_guard lock(mutex_);
  return table_;
}

const std::vector<SlotHandle>& UcxEdges::mirrors(EdgeId edge) const {
  const auto open = table();
  const auto found = open ? open->sending.find(edge) : decltype(open->sending.find(edge))();
  if (!open || found == open->sending.end()) {
    throw Error(ErrorKind::internal, "edge " + std::to_string(edge) + " has no mirrors in this process");
  }
  return found->second.mirrors;
}

// --- in steps ---

void UcxEdges::deliver(EdgeId id, int slot, int microbatch) {
  const auto open = table();
  if (!open || peers_.aborted()) return;
  UcxSendingEdge& edge = open->sending.at(id);
  const auto number = static_cast<std::size_t>(slot);
  const Slot& mirror = *edge.mirrors.at(number);
  edge.credited[number] = false;
  UcxDataHeader header;
  header.generation = open->generation;
  header.edge = id;
  header.slot = static_cast<std::uint32_t>(slot);
  header.filling = ++edge.fillings[number];
  header.microbatch = microbatch;
  header.note = mirror.note;
  if (mirror.lanes.empty()) send(open, edge, header, Lane());
  for (const Lane& lane : mirror.lanes) {
    send(open, edge, header, lane);
    ++header.lane;
    header.note.clear();
  }
}

// Called once the lane's contents are ready.
void UcxEdges::send(const std::shared_ptr<UcxEdgeTable>& open, UcxSendingEdge& edge, UcxDataHeader header, const Lane& lane) {
  header.dtype = lane.tensor.dtype;
  header.shape = lane.tensor.data != nullptr ? lane.tensor.shape : Shape{0};
  header.in_place = !edge.slots.empty();
  const bool sends = lane.tensor.data != nullptr && !header.in_place;
  const std::size_t size = sends ? lane.tensor.bytes() : 0;
  UcxOutgoing outgoing{
      .message = UcxMessage::data, .header = peers_.header(header), .data = sends ? lane.tensor.data : nullptr, .bytes = size};
  if (size > 0) outgoing.memory = edge.memory[header.lane]->handle();
  const int to = edge.end.to;
  outgoing.done = [open, to] { --open->moving[to]; };
  after(lane.ready, [this, open, to, outgoing = std::move(outgoing)]() mutable {
    post(open, [this, open, to, outgoing = std::move(outgoing)]() mutable {
      ++open->moving[to];
      peers_.send(to, std::move(outgoing));
    });
  });
}

// An event may call back after the edges have been closed and this object is gone.
void UcxEdges::post(const std::shared_ptr<UcxEdgeTable>& open, std::function<void()> work) {
  const std::lock_guard lock(open->gate);
  if (!open->open) return;
  worker_.post([open, work = std::move(work)] {
    if (!open->closed) work();
  });
}

void UcxEdges::take_data(std::span<const std::byte> bytes, UcxPayload& payload) {
  const auto header = UcxDataHeader::read(bytes);
  if (!current_ || !header || header->generation != current_->generation) return peers_.count_dropped();
  const auto found = current_->receiving.find(header->edge);
  if (found == current_->receiving.end() || !fits(found->second, *header, payload.bytes())) return peers_.count_dropped();

  auto& edge = found->second;
  auto& state = edge.states[header->slot];
  if (state.left == 0) {
    state.left = state.begun.size();
    ++state.fillings;
    state.microbatch = header->microbatch;
  }
  state.begun[header->lane] = true;
  if (header->lane == 0) edge.end.slots[header->slot]->note = header->note;
  auto& lanes = edge.end.slots[header->slot]->lanes;
  if (!lanes.empty()) lanes[header->lane].tensor.shape = header->shape;
  ++current_->moving[edge.end.from];
  const auto done = [this, open = current_, &edge, &state, slot = static_cast<int>(header->slot)](bool came) {
    --open->moving[edge.end.from];
    // A message that did not arrive belongs to a broken connection, which is reported.
    if (!came || open->closed || --state.left > 0) return;
    state.held = true;
    state.begun.assign(state.begun.size(), false);
    if (!peers_.aborted()) edge.end.arrived(slot, state.microbatch);
  };
  if (header->in_place) return done(true);
  payload.receive(lanes.empty() ? nullptr : lanes[header->lane].tensor.data,
                  lanes.empty() ? nullptr : state.memory[header->lane]->handle(), done);
}

// The slot is free once every lane's last reader has finished.
void UcxEdges::give_credit(EdgeId id, int slot) {
  const auto open = table();
  if (!open || peers_.aborted()) return;
  UcxReceivingEdge& edge = open->receiving.at(id);
  const SlotHandle& handle = edge.end.slots.at(static_cast<std::size_t>(slot));
  const auto release = [this, open, &edge, id, slot] {
    edge.states[static_cast<std::size_t>(slot)].held = false;
    const UcxCreditHeader credit{open->generation, id, static_cast<std::uint32_t>(slot)};
    peers_.send(edge.end.from, {.message = UcxMessage::credit, .header = peers_.header(credit)});
  };
  if (handle->lanes.empty()) return post(open, release);
  const auto left = std::make_shared<std::atomic<std::size_t>>(handle->lanes.size());
  for (const Lane& lane : handle->lanes) {
    after(lane.free, [this, open, left, release] {
      if (left->fetch_sub(1) == 1) post(open, release);
    });
  }
}

void UcxEdges::take_credit(std::span<const std::byte> bytes) {
  const auto header = UcxCreditHeader::read(bytes);
  if (!current_ || !header || header->generation != current_->generation) return peers_.count_dropped();
  const auto found = current_->sending.find(header->edge);
  if (found == current_->sending.end() || header->slot >= found->second.mirrors.size() ||
      found->second.credited[header->slot].exchange(true)) {
    return peers_.count_dropped();
  }
  if (!peers_.aborted()) found->second.end.credit(static_cast<int>(header->slot));
}

}  // namespace pipetrain
