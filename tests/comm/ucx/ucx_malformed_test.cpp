#include <atomic>
#include <cstdint>
#include <exception>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "catch.hpp"
#include "comm/shared_control.hpp"
#include "comm/ucx/ucx_edge_table.hpp"
#include "comm/ucx/ucx_header.hpp"
#include "comm/ucx/ucx_peers.hpp"
#include "comm/ucx/ucx_traffic.hpp"
#include "comm/ucx/ucx_transport.hpp"
#include "wait_until.hpp"

using namespace pipetrain;
using test::Traffic;
using test::TrafficEdge;

namespace {

constexpr int messages = 10000;
constexpr UcxMessage kinds[] = {UcxMessage::hello,  UcxMessage::near,        UcxMessage::fetched,   UcxMessage::data,
                                UcxMessage::credit, UcxMessage::group_ready, UcxMessage::group_data};

// The edges of process 0, which sends on edge 1 and receives on edge 2.
const std::vector<TrafficEdge> edges = {{.edge = 1, .from = 0, .to = 1, .slots = 3, .microbatches = 2000},
                                        {.edge = 2, .from = 1, .to = 0, .slots = 3, .microbatches = 2000}};

using Random = std::mt19937_64;

Bytes random_bytes(Random& random, std::size_t most) {
  Bytes bytes(random() % (most + 1));
  for (auto& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

void append(WireWriter& to, const Bytes& bytes) {
  for (const std::byte byte : bytes) to.number(static_cast<std::uint8_t>(byte));
}

// Writes a header of edges that is wrong in exactly one field.
void write_wrong_header(Random& random, WireWriter& to) {
  UcxDataHeader header{.generation = 1, .edge = 2, .slot = 0, .filling = 1000000, .microbatch = 1, .lane = 0};
  header.shape = {1, 16};
  header.in_place = random() % 2 == 0;
  switch (random() % 7) {
    case 0:
      header.generation = 2 + random() % 5;
      break;
    case 1:
      header.edge = 3 + static_cast<std::uint32_t>(random() % 100000);
      break;
    case 2:
      header.slot = 3 + static_cast<std::uint32_t>(random() % 100000);
      break;
    case 3:
      header.lane = 1 + static_cast<std::uint32_t>(random());
      break;
    case 4:
      header.shape = {std::int64_t{1} << 62, std::int64_t{1} << 62};
      break;
    case 5:
      header.shape = {-1, static_cast<std::int64_t>(random() % 100)};
      break;
    default:
      break;  // the filling
  }
  write_message(to, header);
}

struct Wrong {
  UcxMessage kind;
  Bytes header, data;
};

Wrong draw_wrong(Random& random, const UcxPeers& peers) {
  Wrong wrong{kinds[random() % std::size(kinds)], {}, random_bytes(random, 64)};
  if (random() % 3 == 0) {
    wrong.header = random_bytes(random, 120);
    return wrong;
  }
  WireWriter header = peers.begin_header();
  const bool edge = wrong.kind == UcxMessage::data && random() % 2 == 0;
  if (edge) {
    write_wrong_header(random, header);
  } else {
    Bytes rest = random_bytes(random, 80);
    // Sixteen bytes would be a message of the connection itself, and eight an announcement of a group.
    if (rest.size() == 16 || rest.size() == 8) rest.pop_back();
    append(header, rest);
  }
  wrong.header = std::move(header).data();
  return wrong;
}

// Connects like any process of the run, and sends messages that no process should send.
void attack(ControlPlane& control) {
  UcxWorker worker;
  UcxPeers peers(worker, control);
  peers.join();
  control.exchange("ucx edges 1", describe_edges({}, {}));
  control.exchange("ucx edges 1 connect", describe_mirrors({}));
  control.exchange("ucx edges 1 mapped", {});
  peers.connect({0});  // it has no edges with this process, and so does not answer
  Random random(14);
  std::vector<Wrong> all;
  for (int i = 0; i < messages; ++i) all.push_back(draw_wrong(random, peers));
  std::atomic<int> left = messages;
  for (const Wrong& wrong : all) {
    worker.post([&] {
      peers.send(0, {.message = wrong.kind,
                     .header = wrong.header,
                     .data = wrong.data.data(),
                     .bytes = wrong.data.size(),
                     .done = [&left] { --left; }});
    });
  }
  test::require(test::wait_until([&] { return left == 0; }), "not all was sent");
  control.exchange("done", {});
}

void work(ControlPlane& control) {
  MeshShape shape;
  shape.pp = 3;
  const Mesh mesh(shape, deal_ranks(3, 3));
  UcxTransport transport(control, mesh);
  {
    Traffic traffic(transport, control.process(), edges);
    traffic.run();
  }
  const std::uint64_t expected = control.process() == 0 ? messages : 0;
  test::wait_until([&] { return transport.dropped() >= expected; });
  control.exchange("done", {});
  test::require(transport.dropped() == expected, std::to_string(transport.dropped()) + " messages were dropped");
}

}  // namespace

TEST_CASE("ten thousand malformed messages are dropped and counted, and the edges keep working", "[hostile]") {
  test::SharedControl shared(3);
  const auto wrong = test::in_processes(3, [&](int process) {
    const auto control = shared.plane(process);
    if (process == 2) {
      attack(*control);
    } else {
      work(*control);
    }
  });
  for (const auto& line : wrong) UNSCOPED_INFO(line);
  CHECK(wrong.empty());
}

TEST_CASE("impossible headers are refused") {
  Random random(7);
  for (int i = 0; i < 20000; ++i) {
    const Bytes bytes = random_bytes(random, 80);
    if (const auto header = UcxDataHeader::read(bytes)) {
      CHECK(bytes_of(header->shape, DType::f64).has_value());
      CHECK(header->microbatch >= 0);
    }
    (void)UcxCreditHeader::read(bytes);
    (void)UcxGroupHeader::read(bytes);
  }
  UcxDataHeader header{.generation = 1, .edge = 2, .slot = 3, .filling = 4, .microbatch = 5, .lane = 6, .dtype = DType::bf16};
  header.shape = {7, 8, 9};
  const Bytes whole = to_bytes(header);
  REQUIRE(UcxDataHeader::read(whole));
  CHECK(UcxDataHeader::read(whole)->shape == header.shape);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    CHECK_FALSE(UcxDataHeader::read(std::span(whole).first(size)));
  }
}

TEST_CASE("UCX says what it finds here") {
  const std::string line = describe_ucx();
  CHECK(line.find("UCX 1.") == 0);
  CHECK(line.find("tcp/") != std::string::npos);
}
