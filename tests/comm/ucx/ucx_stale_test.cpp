#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "catch.hpp"
#include "comm/shared_control.hpp"
#include "comm/ucx/ucx_edge_table.hpp"
#include "comm/ucx/ucx_header.hpp"
#include "comm/ucx/ucx_peers.hpp"
#include "comm/ucx/ucx_transport.hpp"
#include "core/device.hpp"
#include "wait_until.hpp"

using namespace pipetrain;

namespace {

constexpr EdgeId edge = 5;

// A hand-made producer with one slot, which announces any contents for it.
class Producer {
 public:
  explicit Producer(ControlPlane& control) : peers_(worker_, control), device_(make_cpu_device(0, 1)) {
    peers_.on_message(UcxMessage::credit, [this](auto, UcxPayload&) { ++credits_; });
    peers_.join();
    EdgeSender sender;
    sender.edge = edge;
    sender.to = 1;
    sender.devices = {device_.get()};
    sender.ranks = {0};
    control.exchange("ucx edges 1", describe_edges({}, {sender}));
    control.exchange("ucx edges 1 connect", describe_mirrors({}));
    control.exchange("ucx edges 1 mapped", {});
    peers_.connect({1});
    peers_.wait_connected({1});
  }

  // Always microbatch 0, as it comes in every step.
  void send(std::uint32_t filling, float value) {
    UcxDataHeader data{.generation = 1, .edge = edge, .slot = 0, .filling = filling};
    data.shape = {1};
    std::atomic<bool> sent = false;
    worker_.call([&] {
      peers_.send(1, {.message = UcxMessage::data,
                      .header = peers_.header(data),
                      .data = &value,
                      .bytes = sizeof value,
                      .done = [&sent] { sent = true; }});
    });
    test::require(test::wait_until([&] { return sent.load(); }), "it was not sent");
  }

  void wait_for_credits(int count) {
    test::wait_until([&] { return credits_ >= count; });
    test::require(credits_ == count, std::to_string(credits_) + " credits came");
  }

 private:
  UcxWorker worker_;
  UcxPeers peers_;
  std::unique_ptr<Device> device_;
  std::atomic<int> credits_ = 0;
};

void produce(ControlPlane& control) {
  Producer producer(control);
  producer.send(1, 10);
  producer.wait_for_credits(1);
  producer.send(1, 11);  // the contents of an earlier step once more
  producer.send(2, 20);
  producer.wait_for_credits(2);
  producer.send(1, 12);
  producer.send(2, 21);
  producer.send(4, 40);  // contents that are not there yet
  producer.send(3, 30);
  producer.wait_for_credits(3);
  control.exchange("done", {});
}

void consume(ControlPlane& control) {
  const Mesh mesh({.pp = 2}, deal_ranks(2, 2));
  UcxTransport transport(control, mesh);
  float value = 0;
  std::vector<float> seen;
  auto slot = std::make_shared<Slot>();
  slot->lanes.push_back({.tensor = {&value, {1}, DType::f32}, .capacity = sizeof value, .ready = {}, .free = {}});
  EdgeReceiver receiver;
  receiver.edge = edge;
  receiver.from = 0;
  receiver.slots = {slot};
  receiver.arrived = [&](int number, int) {
    seen.push_back(value);
    transport.give_credit(edge, number);
  };
  transport.open_edges({std::move(receiver)}, {});
  control.exchange("done", {});
  transport.close_edges();
  test::require(seen == std::vector<float>{10, 20, 30}, std::to_string(seen.size()) + " contents came, or others");
  test::require(transport.dropped() == 4, std::to_string(transport.dropped()) + " messages were dropped");
}

}  // namespace

TEST_CASE("a slot's contents of an earlier step are never taken for the current ones") {
  test::SharedControl shared(2);
  const auto wrong = test::in_processes(2, [&](int process) {
    const auto control = shared.plane(process);
    process == 0 ? produce(*control) : consume(*control);
  });
  for (const auto& line : wrong) UNSCOPED_INFO(line);
  CHECK(wrong.empty());
}
