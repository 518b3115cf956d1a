#include <exception>
#include <thread>
#include <vector>

#include "catch.hpp"
#include "comm/shared_control.hpp"
#include "comm/ucx/ucx_traffic.hpp"
#include "comm/ucx/ucx_transport.hpp"
#include "core/device.hpp"

using namespace pipetrain;
using test::a_rank_each;
using test::Traffic;
using test::TrafficEdge;

namespace {

// Every process runs its ends of the edges, `rounds` times over edges opened anew.
void run_traffic(test::SharedControl& shared, int process, const std::vector<TrafficEdge>& edges, int rounds = 1) {
  const auto control = shared.plane(process);
  const Mesh mesh = a_rank_each(control->processes());
  UcxTransport transport(*control, mesh);
  for (int round = 0; round < rounds; ++round) {
    Traffic traffic(transport, process, edges);
    traffic.run();
    control->exchange("done", {});
  }
  test::require(transport.dropped() == 0, "messages were dropped");
}

void edges_in_threads(int processes, const std::vector<TrafficEdge>& edges, int rounds = 1) {
  test::SharedControl shared(processes);
  std::vector<std::exception_ptr> failures(static_cast<std::size_t>(processes));
  std::vector<std::thread> threads;
  for (int process = 0; process < processes; ++process) {
    threads.emplace_back([&, process] {
      try {
        run_traffic(shared, process, edges, rounds);
      } catch (...) {
        failures[static_cast<std::size_t>(process)] = std::current_exception();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (const auto& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

void in_forks(int processes, const std::vector<TrafficEdge>& edges, bool one_machine = true) {
  test::SharedControl shared(processes, one_machine);
  const auto wrong = test::in_processes(processes, [&](int process) { run_traffic(shared, process, edges); });
  for (const auto& line : wrong) UNSCOPED_INFO(line);
  CHECK(wrong.empty());
}

}  // namespace

TEST_CASE("an edge over UCX carries microbatches of every shape between two transports of one process") {
  CHECK_NOTHROW(edges_in_threads(2, {{.edge = 7, .from = 0, .to = 1, .slots = 3, .lanes = 2, .microbatches = 50}}));
}

TEST_CASE("edges over UCX can be opened again after they were closed") {
  CHECK_NOTHROW(edges_in_threads(2, {{.edge = 7, .from = 0, .to = 1}, {.edge = 9, .from = 1, .to = 0}}, 3));
}

TEST_CASE("edges over UCX join forked processes") {
  in_forks(2, {{.edge = 1, .from = 0, .to = 1, .slots = 4, .lanes = 3, .microbatches = 300},
               {.edge = 2, .from = 1, .to = 0, .slots = 4, .lanes = 3, .microbatches = 300, .shared = false}});
}

TEST_CASE("filling a mirror fills the slot if processes share a machine and the slot is the transport's memory") {
  for (const bool one_machine : {true, false}) {
    test::SharedControl shared(2, one_machine);
    const auto wrong = test::in_processes(2, [&](int process) {
      const auto control = shared.plane(process);
      const Mesh mesh = a_rank_each(2);
      UcxTransport transport(*control, mesh);
      const auto device = make_cpu_device(0, 1);
      const Buffer memory = transport.slot_memory(*device, 4096, "test");
      auto* numbers = static_cast<float*>(memory.data());
      numbers[7] = 0;
      std::vector<EdgeReceiver> receivers;
      std::vector<EdgeSender> senders;
      if (process == 1) {
        auto slot = std::make_shared<Slot>();
        slot->lanes.push_back({.tensor = {numbers, {1024}, DType::f32}, .capacity = 4096, .ready = {}, .free = {}});
        receivers.push_back({5, 0, {slot}, [](int, int) {}});
      } else {
        senders.push_back({5, 1, {device.get()}, {0}, [](int) {}});
      }
      transport.open_edges(std::move(receivers), std::move(senders));
      if (process == 0) transport.mirrors(5).at(0)->lanes[0].tensor.as<float>()[7] = 42;
      control->exchange("written", {});
      test::require(process == 0 || numbers[7] == (one_machine ? 42 : 0), "the slot has another content");
      transport.close_edges();
    });
    for (const auto& line : wrong) UNSCOPED_INFO(line);
    CHECK(wrong.empty());
  }
}

TEST_CASE("32 MB go over an edge in both directions at once") {
  for (const bool slots_shared : {true, false}) {
    in_forks(2, {{.edge = 1, .from = 0, .to = 1, .microbatches = 8, .most_rows = 8192, .cols = 1024, .shared = slots_shared},
                 {.edge = 2, .from = 1, .to = 0, .microbatches = 8, .most_rows = 8192, .cols = 1024, .shared = slots_shared}});
  }
}

TEST_CASE("large microbatches go over UCX itself where processes do not share a machine") {
  in_forks(2,
           {{.edge = 1, .from = 0, .to = 1, .lanes = 2, .microbatches = 20, .most_rows = 4096, .cols = 256},
            {.edge = 2, .from = 1, .to = 0, .microbatches = 20, .most_rows = 4096, .cols = 256}},
           false);
}

TEST_CASE("eight interleaved edges between three processes do not wait for each other") {
  std::vector<TrafficEdge> edges;
  for (int i = 0; i < 8; ++i) {
    TrafficEdge edge;
    edge.edge = static_cast<EdgeId>(i);
    edge.from = i % 3;
    edge.to = (i + 1 + i / 3 % 2) % 3;
    edge.slots = 1 + i % 4;
    edge.lanes = 1 + i % 2;
    edge.microbatches = 100 + 10 * i;
    edge.most_rows = i % 2 == 0 ? 16 : 2000;
    edge.cols = 64;
    edges.push_back(edge);
  }
  in_forks(3, edges);
}
