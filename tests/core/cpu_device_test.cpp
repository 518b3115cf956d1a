#include <chrono>
#include <thread>

#include "catch.hpp"
#include "core/cpu_stream.hpp"
#include "core/device.hpp"

namespace pipetrain {
namespace {

using Clock = std::chrono::steady_clock;

TEST_CASE("timing events of the CPU tell the seconds between them") {
  const auto device = make_cpu_device(0, 1);
  const auto stream = device->make_stream("timed");
  const auto begin = device->make_timing_event(), end = device->make_timing_event();
  for (const int milliseconds : {20, 5}) {  // the latest record counts
    const auto before = Clock::now();
    stream->record(*begin);
    cpu_stream(*stream).enqueue([&] { std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds)); });
    stream->record(*end);
    end->synchronize();
    const double around = std::chrono::duration<double>(Clock::now() - before).count();
    const double seconds = device->seconds_between(*begin, *end);
    CHECK(seconds >= 1e-3 * milliseconds);
    CHECK(seconds <= around);
    CHECK(device->seconds_between(*end, *begin) == -seconds);
  }
}

}  // namespace
}  // namespace pipetrain
