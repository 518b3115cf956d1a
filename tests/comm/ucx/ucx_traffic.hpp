// Microbatches of random shapes over edges, for the tests of the UCX transport: the contents are a function of edge,
// microbatch and lane, and the receiver checks every byte.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "comm/transport.hpp"
#include "core/device.hpp"
#include "core/mesh.hpp"

namespace pipetrain::test {

// A pipeline of one rank in each process.
inline Mesh a_rank_each(int processes) { return Mesh({.pp = processes}, deal_ranks(processes, processes)); }

struct TrafficEdge {
  EdgeId edge = 0;
  int from = 0, to = 0;  // processes
  int slots = 2, lanes = 1, microbatches = 10;
  std::int64_t most_rows = 64, cols = 16;  // f32
  bool shared = true;                      // slots are memory of the transport
};

// One process's ends of the edges.
class Traffic {
 public:
  Traffic(Transport& transport, int process, std::vector<TrafficEdge> edges);
  ~Traffic();

  // Sends and receives everything; throws if anything is wrong. Every edge has a thread of its own at each end.
  void run();
  // Makes run() throw soon. Thread-safe.
  void stop();

 private:
  struct End;
  void open();
  void send(End& end);
  void receive(End& end);

  Transport& transport_;
  int process_;
  std::unique_ptr<Device> device_;
  std::vector<std::unique_ptr<End>> ends_;
};

}  // namespace pipetrain::test
