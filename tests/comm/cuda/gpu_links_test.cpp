// Rates and latencies of the links between GPUs of two processes.
#include <signal.h>

#include <chrono>

#include "catch.hpp"
#include "comm/cuda/gpu_process.hpp"
#include "comm/edge_pair.hpp"
#include "comm/measure_links.hpp"
#include "core/error.hpp"

namespace pipetrain::test {
namespace {

struct Measuring {
  explicit Measuring(GpuProcess& self)
      : control(self.control()),
        mesh({.pp = control.processes()}, deal_ranks(control.processes(), control.processes())),
        device(make_cuda_device(self.gpu(0))),
        transport(make_transport(self.kind(), control, mesh)) {}

  ControlPlane& control;
  Mesh mesh;
  std::unique_ptr<Device> device;
  std::unique_ptr<Transport> transport;
};

}  // namespace

TEST_CASE("one process of GPUs whose links are measured", "[.][gpu-process]") {
  const auto self = GpuProcess::here();
  if (!self) return;
  {
    Measuring measuring(*self);
    const auto links = measure_links(measuring.control, *measuring.transport, *measuring.device);
    REQUIRE(links.size() == 1);
    CHECK(links[0].rate > 1e8);
    CHECK(links[0].rate < 1e14);
    CHECK(links[0].latency > 1e-7);
    CHECK(links[0].latency < 1);
  }
  self->control().leave();
}

// Process 1 takes part in a few messages, and is killed.
TEST_CASE("one process of GPUs whose links are measured and of which one is killed", "[.][gpu-process]") {
  const auto self = GpuProcess::here();
  if (!self) return;
  Measuring measuring(*self);
  EdgePair pair(measuring.control, *measuring.transport, *measuring.device, 0, 1);
  SlotQueue filled, free;
  pair.open(
      1024, 1, [&](int slot) { filled.put(slot); }, [&](int slot) { free.put(slot); });
  if (!pair.leads()) {
    pair.give_back(filled.take(pair));
    ::raise(SIGKILL);
  }
  const auto start = std::chrono::steady_clock::now();
  const auto exchange = [&] {  // the first message may still arrive; any of the further calls may be the one that fails
    for (int message = 0; message < 2; ++message) {
      pair.deliver(0);
      free.take(pair);
    }
  };
  CHECK_THROWS_AS(exchange(), Error);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(20));
}

TEST_CASE("links between GPUs of two processes are measured", "[gpu]") {
  for (const TransportKind kind : {TransportKind::ipc, TransportKind::nccl, TransportKind::nccl_put}) {
    for (const int gpus : {2, 1}) {
      if ((kind != TransportKind::ipc && gpus == 1) || !have(kind, gpus)) continue;
      INFO(to_string(kind) << ", " << gpus << " GPUs");
      CHECK(run_gpu_processes({"one process of GPUs whose links are measured", kind, 2, gpus}) == std::vector<int>{0, 0});
    }
  }
}

TEST_CASE("a link between GPUs whose other end is killed is measured no longer", "[gpu]") {
  for (const TransportKind kind : {TransportKind::ipc, TransportKind::nccl, TransportKind::nccl_put}) {
    if (!have(kind, 2)) continue;
    const auto ends =
        run_gpu_processes({"one process of GPUs whose links are measured and of which one is killed", kind, 2, 2});
    CHECK(ends == std::vector<int>{0, -SIGKILL});
  }
}

}  // namespace pipetrain::test
