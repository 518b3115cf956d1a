#include "core/host_gate.hpp"

#include <chrono>
#include <thread>

#include "catch.hpp"
#include "skip.hpp"

using namespace pipetrain;

namespace {

// Checks that each count for which a stream waits lets the copy after it see the values written before the gate was opened.
void check_gate(Device& device) {
  const auto stream = device.make_stream("waits");
  const Buffer memory = device.allocate_host(2 * sizeof(int), "numbers");
  auto* const numbers = static_cast<volatile int*>(memory.data());
  const Buffer passed = device.allocate(sizeof(int), "a number");  // a copy within host memory would wait here
  const auto gate = make_host_gate(device);
  const auto copied = device.make_event();
  for (std::uint32_t count = 1; count < 200; ++count) {
    numbers[1] = 0;
    gate->wait(*stream, count);
    stream->copy(passed.data(), memory.data(), sizeof(int));
    stream->copy(static_cast<int*>(memory.data()) + 1, passed.data(), sizeof(int));
    stream->record(*copied);
    if (count % 50 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    CHECK_FALSE(copied->query());
    numbers[0] = static_cast<int>(count);
    std::thread([&] { gate->open(count); }).join();
    stream->synchronize();
    CHECK(numbers[1] == static_cast<int>(count));
  }
  gate->wait(*stream, 7);  // reached long ago
  stream->synchronize();
}

}  // namespace

TEST_CASE("a stream waits until a host's thread has opened its gate") { check_gate(*make_cpu_device(0, 1)); }

TEST_CASE("a GPU's stream waits until a host's thread has opened its gate", "[gpu]") {
  if (!test::needs_gpus(cuda_device_count())) return;
  check_gate(*make_cuda_device(0));
}
