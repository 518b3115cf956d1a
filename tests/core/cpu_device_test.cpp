#include <algorithm>
#include <chrono>
#include <thread>

#include "catch.hpp"
#include "core/cpu_stream.hpp"
#include "core/device.hpp"

namespace pipetrain {
namespace {

using Clock = std::chrono::steady_clock;

TEST_CASE("the CPU zeroes all of a tensor and nothing outside of it, on several threads") {
  const auto device = make_cpu_device(0, 3);
  const auto stream = device->make_stream("zero");
  for (const std::int64_t bytes : {0, 3, 8 << 20, (40 << 20) + 5}) {
    const Buffer memory = device->allocate(static_cast<std::size_t>(bytes) + 2, "tensor");
    auto* const data = static_cast<char*>(memory.data());
    std::fill_n(data, bytes + 2, 'x');
    stream->zero({data + 1, {bytes}, DType::e4m3});
    stream->synchronize();
    CHECK(std::count(data, data + bytes + 2, '\0') == bytes);
    CHECK((data[0] == 'x' && data[bytes + 1] == 'x'));
  }
}

TEST_CASE("timing events of the CPU measure the seconds between them") {
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
