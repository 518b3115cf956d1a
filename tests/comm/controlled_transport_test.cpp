// Edges whose deliveries and credits are messages, over memory of the test that both ends can access.
#include "comm/controlled/controlled_transport.hpp"

#include <cstring>
#include <map>
#include <random>

#include "catch.hpp"
#include "comm/control/control_fixture.hpp"
#include "core/error.hpp"

namespace pipetrain::test {
namespace {

// A mirror is the slot's memory itself.
class SharedMemoryTransport final : public ControlledTransport {
 public:
  SharedMemoryTransport(ControlPlane& control, const Mesh& mesh) : ControlledTransport(control, mesh) { listen(); }
  ~SharedMemoryTransport() override { stop_listening(); }

  std::map<int, std::shared_ptr<Group>> group(const std::vector<int>&, std::uint32_t, const std::map<int, Device*>&,
                                              GroupUse) override {
    return {};
  }
  std::string description() const override { return "memory of the test"; }
  LinkKind link(int, int) const override { return LinkKind::same_memory; }

  std::string refuses;  // the error of connect()
  int disconnects = 0, ends = 0;

 private:
  Bytes introduce(const Edges&) override { return {}; }
  Bytes offer(const EdgeReceiver& receiver) override {
    WireWriter out;
    for (const auto& slot : receiver.slots) out.number(reinterpret_cast<std::uint64_t>(slot->lanes[0].tensor.data));
    return std::move(out).data();
  }
  void connect(Edges& edges) override {
    if (!refuses.empty()) throw Error(ErrorKind::unavailable, refuses);
    for (auto& [id, sender] : edges.senders) {
      WireReader in(sender.offer.extra);
      for (const auto& lanes : sender.offer.slots) {
        auto slot = std::make_shared<Slot>();
        Lane lane;
        lane.tensor = {reinterpret_cast<void*>(in.number<std::uint64_t>()), lanes[0].shape, lanes[0].dtype};
        lane.capacity = lanes[0].capacity;
        lane.rank = lanes[0].rank;
        slot->lanes.push_back(lane);
        sender.mirrors.push_back(slot);
      }
    }
  }
  void disconnect(Edges&) noexcept override { ++disconnects; }
  void send(const std::shared_ptr<Edges>&, Sender& sender, Delivery delivery) override { announce(sender, delivery); }
  void land(const std::shared_ptr<Edges>&, EdgeReceiver& receiver, const Delivery& delivery) override {
    receiver.arrived(delivery.slot, delivery.microbatch);
  }
  void take(const std::shared_ptr<Edges>&, Sender& sender, const SlotCredit& credit) override {
    sender.edge.credit(credit.slot);
  }
  void group_message(int, WireReader&) override {}
  void on_abort(const std::exception_ptr&) noexcept override { ++ends; }
};

// An edge from process 0 to process 1 with some slots of eight numbers.
class ControlledEdge {
 public:
  explicit ControlledEdge(int slots)
      : memory_(static_cast<std::size_t>(8 * slots)), mesh_({.pp = 2}, deal_ranks(2, 2)), planes_(join_all(2)) {
    for (int process = 0; process < 2; ++process) {
      ends_.push_back(std::make_unique<SharedMemoryTransport>(*planes_[static_cast<std::size_t>(process)], mesh_));
    }
    for (int i = 0; i < slots; ++i) {
      auto slot = std::make_shared<Slot>();
      slot->lanes.push_back({{&memory_[static_cast<std::size_t>(8 * i)], {8}, DType::f32}, 32, nullptr, nullptr, 1});
      slots_.push_back(slot);
    }
  }
  ~ControlledEdge() {
    ends_.clear();
    leave_all(planes_);
  }

  void open(std::function<void(int, int)> arrived, std::function<void(int)> credit) {
    in_threads(2, [&](int process) {
      std::vector<EdgeReceiver> receivers;
      std::vector<EdgeSender> senders;
      if (process == 1) receivers.push_back({5, 0, slots_, arrived});
      if (process == 0) senders.push_back({5, 1, {nullptr}, {0}, credit});
      errors_[process] = error_of([&] { end(process).open_edges(std::move(receivers), std::move(senders)); });
    });
  }
  void close() {
    in_threads(2, [&](int process) { end(process).close_edges(); });
  }
  SharedMemoryTransport& end(int process) { return *ends_[static_cast<std::size_t>(process)]; }
  ControlPlane& plane(int process) { return *planes_[static_cast<std::size_t>(process)]; }
  const std::string& error(int process) { return errors_[process]; }
  const Tensor& slot(int number) { return slots_[static_cast<std::size_t>(number)]->lanes[0].tensor; }

 private:
  std::vector<float> memory_;
  Mesh mesh_;
  Planes planes_;
  std::vector<std::unique_ptr<SharedMemoryTransport>> ends_;
  std::vector<SlotHandle> slots_;
  std::map<int, std::string> errors_{{0, ""}, {1, ""}};
};

Tensor& mirror(ControlledEdge& edge, int slot) {
  return edge.end(0).mirrors(5).at(static_cast<std::size_t>(slot))->lanes[0].tensor;
}

}  // namespace

TEST_CASE("deliveries carry shapes and credits come back; edges can be closed and opened anew", "[transport]") {
  ControlledEdge edge(3);
  for (int generation = 0; generation < 2; ++generation) {
    Notes seen, credits;
    edge.open(
        [&](int slot, int microbatch) {
          const Tensor& tensor = edge.slot(slot);
          seen.add(std::to_string(microbatch) + " " + to_string(tensor.shape) + " " +
                   std::to_string(int(tensor.as<float>()[0])));
          edge.end(1).give_credit(5, slot);
        },
        [&](int slot) { credits.add(std::to_string(slot)); });
    CHECK(edge.error(0) == "nothing");
    CHECK(edge.error(1) == "nothing");
    for (int microbatch = 0; microbatch < 9; ++microbatch) {
      if (microbatch >= 3) credits.wait(static_cast<std::size_t>(microbatch - 2));
      Tensor& place = mirror(edge, microbatch % 3);
      place.shape = {1 + microbatch % 4, 2};
      place.as<float>()[0] = static_cast<float>(10 * microbatch);
      edge.end(0).deliver(5, microbatch % 3, microbatch);
    }
    const auto all = seen.wait(9);
    REQUIRE(all.size() == 9);
    CHECK(all[0] == "0 [1, 2] 0");
    CHECK(all[7] == "7 [4, 2] 70");
    CHECK(credits.wait(9).size() == 9);
    edge.close();
    CHECK(edge.end(0).disconnects == generation + 1);
    CHECK_THROWS_AS(edge.end(0).mirrors(5), Error);
    edge.end(0).deliver(5, 0, 99);  // the other end is gone
    CHECK(seen.all().size() == 9);
  }
}

TEST_CASE("if one process cannot connect its edges, all learn why", "[transport]") {
  ControlledEdge edge(1);
  edge.end(1).refuses = "no road";
  edge.open([](int, int) {}, [](int) {});
  for (int process = 0; process < 2; ++process) {
    CHECK_THAT(edge.error(process), Catch::Contains("no road") && Catch::Contains("process 1"));
  }
}

TEST_CASE("after an abort nothing is delivered", "[transport]") {
  ControlledEdge edge(1);
  Notes seen;
  edge.open([&](int, int) { seen.add("arrived"); }, [&](int) { seen.add("credit"); });
  edge.end(0).abort(std::make_exception_ptr(Error(ErrorKind::aborted, "enough")));
  edge.end(0).abort(std::make_exception_ptr(Error(ErrorKind::aborted, "enough again")));
  CHECK(edge.end(0).ends == 1);
  edge.end(0).deliver(5, 0, 0);
  edge.end(1).give_credit(5, 0);
  edge.close();
  CHECK(seen.all().empty());
}

TEST_CASE("malformed messages of an edge name who sent them, and change nothing", "[transport]") {
  std::mt19937 random(3);
  for (int round = 0; round < 20; ++round) {
    ControlledEdge edge(2);
    Notes seen, lost;
    edge.open([&](int, int) { seen.add("arrived"); }, [&](int) { seen.add("credit"); });
    for (int process = 0; process < 2; ++process) {
      edge.end(process).on_lost([&](int from, const std::string& why) { lost.add(std::to_string(from) + ": " + why); });
    }
    for (int message = 0; message < 200; ++message) {
      Bytes bytes(random() % 40);
      for (auto& byte : bytes) byte = static_cast<std::byte>(random() % 4);
      if (!bytes.empty()) bytes[0] = static_cast<std::byte>(random() % 2);
      if (bytes.size() > 8) {  // of this generation and, often, edge
        const std::uint32_t header[] = {1, random() % 2 ? 5U : 6U};
        std::memcpy(bytes.data() + 1, header, 8 <= bytes.size() - 1 ? 8 : bytes.size() - 1);
      }
      edge.plane(0).send(1, Channel::transport, bytes);
    }
    REQUIRE(lost.wait(1).size() == 1);
    CHECK_THAT(lost.all()[0], Catch::Contains("0: a message from another process holds"));
    CHECK(seen.all().empty());
    edge.close();
  }
}

}  // namespace pipetrain::test
