// A process whose GPU waits for that of one that was killed.
#include <signal.h>

#include <atomic>
#include <thread>

#include "catch.hpp"
#include "comm/control/control_fixture.hpp"
#include "comm/cuda/gpu_process.hpp"
#include "comm/link.hpp"
#include "core/error.hpp"

namespace pipetrain::test {
namespace {

// Aborts waits for a process once it is lost.
class LossWatch {
 public:
  LossWatch(GpuProcess& self, Transport& transport, std::function<void(std::exception_ptr)> end)
      : self_(self), transport_(transport) {
    const auto lost = [this, &transport, end](int process, const std::string& why) {
      const auto cause =
          std::make_exception_ptr(Error(ErrorKind::peer_lost, "process " + std::to_string(process) + ": " + why));
      seen_ = true;  // set first: waiting calls end before abort() has returned
      transport.abort(cause);
      end(cause);
    };
    self.control().on_lost(lost);
    transport.on_lost(lost);
  }
  ~LossWatch() {
    self_.control().on_lost({});
    transport_.on_lost({});
  }
  bool seen() const { return seen_; }

 private:
  GpuProcess& self_;
  Transport& transport_;
  std::atomic<bool> seen_{false};
};

// Announces data on edge 3 that its stream never writes.
void promise_and_die(Transport& transport, Device& device, Stream& compute) {
  const auto link = make_link(transport.link(1, 0), {&device, 4096, "a test"});
  Lane& lane = transport.mirrors(3).at(0)->lanes[0];
  static_cast<void>(link->begin(compute, lane));
  compute.host_callback([] { std::this_thread::sleep_for(std::chrono::seconds(100)); });
  link->send(compute, lane);
  transport.deliver(3, 0, 0);
  std::this_thread::sleep_for(std::chrono::seconds(1));
  ::raise(SIGKILL);
}

}  // namespace

// Process 1 announces a slot and a sum, and is killed. Process 0 waits for both on its GPU; over NCCL, which announces
// a slot only once its data has arrived, for the sum alone.
TEST_CASE("one process of GPUs of which one is killed", "[.][gpu-process]") {
  const auto self = GpuProcess::here();
  if (!self) return;
  const Mesh mesh({.dp = 2}, deal_ranks(2, 2));
  const auto device = make_cuda_device(self->gpu(0));
  const auto compute = device->make_stream("compute"), sums = device->make_stream("sums");
  const Buffer arena = device->allocate(1 << 20, "sums");
  const auto transport = make_transport(self->kind(), self->control(), mesh);
  const Buffer memory = transport->slot_memory(*device, 4096, "a slot");
  const auto group = transport->group({0, 1}, 7, {{self->process(), device.get()}}, GroupUse::alone).at(self->process());
  const Tensor numbers{arena.data(), {1 << 18}, DType::f32};

  Notes arrived, credited;
  std::vector<EdgeReceiver> receivers;
  std::vector<EdgeSender> senders;
  auto slot = std::make_shared<Slot>();
  if (self->process() == 0) {
    slot->lanes.push_back({{memory.data(), {1024}, DType::f32}, 4096, device->make_event(), device->make_event(), 0});
    receivers.push_back({3, 1, {slot}, [&](int, int) { arrived.add("arrived"); }});
  } else {
    senders.push_back({3, 0, {device.get()}, {1}, [&](int) { credited.add("credit"); }});
  }
  transport->open_edges(std::move(receivers), std::move(senders));
  if (self->process() == 1) {
    credited.wait(1);
    promise_and_die(*transport, *device, *compute);
  }
  {
    const LossWatch loss(*self, *transport, [&](const std::exception_ptr& cause) { group->abort(cause); });
    transport->give_credit(3, 0);
    if (self->kind() == TransportKind::ipc) {
      REQUIRE(arrived.wait(1).size() == 1);
      wait_until_ready(*compute, *slot, 0);
      mark_free(*compute, *slot, 0);
    }
    group->all_reduce(*sums, numbers, Reduction::sum);
    try {  // the wait for the slot may fail or end without it
      compute->synchronize();
    } catch (const Error&) {
    }
    CHECK_THROWS_WITH(sums->synchronize(), Catch::Contains("process 1"));
    CHECK(loss.seen());
    transport->close_edges();
  }
  self->control().leave();
}

// Process 1 passes a tensor on and is killed. Process 0 waits for the next one.
TEST_CASE("one process of a ring of GPUs of which one is killed", "[.][gpu-process]") {
  const auto self = GpuProcess::here();
  if (!self) return;
  const Mesh mesh({.cp = 2}, deal_ranks(2, 2));
  const auto device = make_cuda_device(self->gpu(0));
  const auto stream = device->make_stream("ring");
  const Buffer memory = device->allocate(2 << 20, "what goes round");
  const Tensor here{memory.data(), {1 << 18}, DType::f32},
      coming{static_cast<char*>(memory.data()) + (1 << 20), {1 << 18}, DType::f32};
  const auto transport = make_transport(self->kind(), self->control(), mesh);
  const auto group =
      transport->group({0, 1}, 7, {{self->process(), device.get()}}, GroupUse::overlaps_compute).at(self->process());
  {
    const LossWatch loss(*self, *transport, [&](const std::exception_ptr& cause) { group->abort(cause); });
    group->shift(*stream, here, coming);
    stream->synchronize();
    const auto go_on = [&] {  // the loss is found in the exchange, in the call or on the stream
      static_cast<void>(self->control().exchange("passed on", {}));
      if (self->process() == 1) ::raise(SIGKILL);
      group->shift(*stream, coming, here);
      stream->synchronize();
    };
    CHECK_THROWS_WITH(go_on(), Catch::Contains("process 1"));
  }
  self->control().leave();
}

TEST_CASE("a GPU does not wait for ever for a process of its ring that was killed", "[gpu]") {
  for (const TransportKind kind : {TransportKind::ipc, TransportKind::nccl}) {
    if (!have(kind, 2)) continue;
    INFO(to_string(kind));
    CHECK(run_gpu_processes({"one process of a ring of GPUs of which one is killed", kind, 2, 2}) ==
          std::vector<int>{0, -SIGKILL});
  }
}

TEST_CASE("a GPU does not wait for ever for a process that was killed", "[gpu]") {
  for (const TransportKind kind : {TransportKind::ipc, TransportKind::nccl, TransportKind::nccl_put}) {
    if (!have(kind, 2)) continue;
    INFO(to_string(kind));
    CHECK(run_gpu_processes({"one process of GPUs of which one is killed", kind, 2, 2}) == std::vector<int>{0, -SIGKILL});
  }
}

}  // namespace pipetrain::test
