#include <chrono>
#include <thread>
#include <vector>

#include "catch.hpp"
#include "comm/outgoing_links.hpp"
#include "core/error.hpp"

namespace pipetrain::test {
namespace {

// A sender's device, and lanes of four numbers in a receiver's memory.
class LinkedEdge {
 public:
  std::unique_ptr<Device> sender = make_cpu_device(0, 1), receiver = make_cpu_device(1, 1);
  std::unique_ptr<Stream> compute = sender->make_stream("compute"), reading = receiver->make_stream("reading");

  LinkSetup setup() { return {sender.get(), 4 * sizeof(float), "a test"}; }
  Lane lane(std::vector<float>& memory, int rank) {
    memory.assign(4, 0);
    Lane lane;
    lane.tensor = {memory.data(), {4}, DType::f32};
    lane.capacity = 4 * sizeof(float);
    lane.ready = receiver->make_event();
    lane.free = receiver->make_event();
    lane.rank = rank;
    return lane;
  }
};

}  // namespace

// On the CPU a peer copy is an ordinary copy, so the order of its waits and records can be tested without GPUs.
TEST_CASE("a link delivers every result once, and waits for slots that are still read", "[link]") {
  for (const LinkKind kind : {LinkKind::same_memory, LinkKind::peer_copy}) {
    LinkedEdge edge;
    const auto link = make_link(kind, edge.setup());
    std::vector<float> memory, seen;
    Lane lane = edge.lane(memory, 1);
    std::vector<std::vector<float>> sent;
    for (int round = 0; round < 8; ++round) sent.push_back(std::vector<float>(4, static_cast<float>(round + 1)));
    for (const auto& values : sent) {
      const Tensor place = link->begin(*edge.compute, lane);
      REQUIRE(place.shape == lane.tensor.shape);
      CHECK((place.data == lane.tensor.data) == (kind == LinkKind::same_memory));
      edge.compute->copy(place.data, values.data(), place.bytes());
      link->send(*edge.compute, lane);
      edge.reading->wait(*lane.ready);
      edge.reading->host_callback([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        seen.push_back(memory[3]);
      });
      edge.reading->record(*lane.free);
    }
    edge.reading->synchronize();
    edge.compute->synchronize();
    CHECK(seen == std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8});
  }
}

TEST_CASE("links of one kind share their resources; a lane without a link is written directly", "[link]") {
  LinkedEdge edge;
  const LinkKinds kinds = {{0, LinkKind::same_memory}, {2, LinkKind::peer_copy}, {3, LinkKind::peer_copy}};
  OutgoingLinks links(kinds, edge.setup());
  std::vector<float> memory;
  CHECK(&links.to(edge.lane(memory, 2)) == &links.to(edge.lane(memory, 3)));
  CHECK(links.streams().size() == 1);
  CHECK(OutgoingLinks::memory(kinds, 100) == link_memory(LinkKind::peer_copy, 100));
  CHECK(link_memory(LinkKind::same_memory, 100) == 0);
  Lane open = edge.lane(memory, -1);
  CHECK(links.to(open).begin(*edge.compute, open).data == memory.data());
  CHECK_THROWS_WITH(links.to(edge.lane(memory, 7)), Catch::Contains("no link to rank 7"));
}

}  // namespace pipetrain::test
