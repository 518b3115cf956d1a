#include <cuda_runtime_api.h>
#include <sys/mman.h>

#include <atomic>
#include <cstring>

#include "catch.hpp"
#include "core/cuda/cuda_stream.hpp"
#include "core/error.hpp"
#include "cuda_fault.hpp"
#include "skip.hpp"
#include "wait_until.hpp"

namespace pipetrain {
namespace {

// Returns the GPU to test on; without one, reports that and returns null.
std::unique_ptr<Device> gpu() { return test::needs_gpus(cuda_device_count()) ? make_cuda_device(0) : nullptr; }

TEST_CASE("a GPU that is not there is refused with the number that are", "[gpu]") {
  try {
    make_cuda_device(1000);
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::unavailable);
    CHECK_THAT(error.what(), Catch::Contains("cuda:1000"));
  }
}

TEST_CASE("GPU memory too large to be had names what asked for it", "[gpu]") {
  const auto device = gpu();
  if (!device) return;
  try {
    device->allocate(std::size_t{1} << 50, "the attic");
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::out_of_memory);
    CHECK_THAT(error.what(), Catch::Contains("cuda:0") && Catch::Contains("the attic") && Catch::Contains("1048576.00 GiB"));
  }
  const auto memory = device->memory();
  CHECK(memory.free > 0);
  CHECK(memory.free <= memory.total);
  CHECK(device->allocate(1000, "a little").data() != nullptr);  // the refusal left nothing allocated
}

TEST_CASE("GPU streams order copies by events and call the host back", "[gpu]") {
  const auto device = gpu();
  if (!device) return;
  constexpr std::size_t bytes = 1 << 20;
  const auto first = device->make_stream("first"), second = device->make_stream("second");
  const auto event = device->make_event();
  CHECK(event->query());  // never recorded
  const Buffer host = device->allocate_host(2 * bytes, "host"), memory = device->allocate(bytes, "device");
  auto* in = static_cast<unsigned char*>(host.data());
  auto* out = in + bytes;
  for (std::size_t i = 0; i < bytes; ++i) in[i] = static_cast<unsigned char>(i * 7 + i / 256);

  for (int round = 0; round < 10; ++round) {
    in[0] = static_cast<unsigned char>(round);
    std::memset(out, 0, bytes);
    first->zero({memory.data(), {static_cast<std::int64_t>(bytes) / 4}, DType::f32});
    first->copy(memory.data(), in, bytes);
    first->record(*event);
    second->wait(*event);
    second->copy(out, memory.data(), bytes);
    std::atomic<bool> called{false};
    second->host_callback([&] { called = std::memcmp(in, out, bytes) == 0; });
    second->synchronize();
    CHECK(called);
    CHECK(event->query());
  }
  CHECK(first->failure() == nullptr);
}

// Allocated by many threads and then locked, whereas the driver allocates small memory.
TEST_CASE("large host memory of a GPU is copied from and to like small memory, and freed", "[gpu]") {
  const auto device = gpu();
  if (!device) return;
  const auto stream = device->make_stream("copies");
  const std::size_t bytes = (std::size_t{1} << 29) + 12345;
  const Buffer memory = device->allocate(bytes, "device");
  for (int round = 0; round < 2; ++round) {
    const Buffer from = device->allocate_host(bytes, "from"), to = device->allocate_host(bytes, "to");
    auto* const numbers = static_cast<unsigned char*>(from.data());
    for (std::size_t i = 0; i < bytes; ++i) numbers[i] = static_cast<unsigned char>(i * 37 + static_cast<std::size_t>(round));
    stream->copy(memory.data(), from.data(), bytes);
    stream->copy(to.data(), memory.data(), bytes);
    stream->synchronize();
    CHECK(std::memcmp(from.data(), to.data(), bytes) == 0);
  }
}

TEST_CASE("a GPU copies to and from host memory that is locked until its buffer is freed", "[gpu]") {
  const auto device = gpu();
  if (!device) return;
  constexpr std::size_t bytes = 1 << 20, half = bytes / 2;
  void* const mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(mapped != MAP_FAILED);
  auto* const host = static_cast<unsigned char*>(mapped);
  for (std::size_t i = 0; i < half; ++i) host[i] = static_cast<unsigned char>(i * 7 + i / 256);
  const auto type = [&] {
    cudaPointerAttributes attributes{};
    REQUIRE(cudaPointerGetAttributes(&attributes, host) == cudaSuccess);
    return attributes.type;
  };
  const auto stream = device->make_stream("copies");
  const Buffer memory = device->allocate(half, "device");
  {
    const Buffer first = device->lock_host_memory(host, half), second = device->lock_host_memory(host + half, half);
    CHECK(type() == cudaMemoryTypeHost);
    CHECK_THROWS_WITH(device->lock_host_memory(host, half), Catch::Contains("cuda:0: locking 0.00 GiB of host memory failed"));
    stream->copy(memory.data(), host, half);
    stream->copy(host + half, memory.data(), half);
    stream->synchronize();
    CHECK(std::memcmp(host, host + half, half) == 0);
  }
  CHECK(type() == cudaMemoryTypeUnregistered);
  munmap(mapped, bytes);
}

TEST_CASE("timing events of a GPU stream measure the seconds between them", "[gpu]") {
  const auto device = gpu();
  if (!device) return;
  const auto stream = device->make_stream("timed");
  const Buffer memory = device->allocate(std::size_t{256} << 20, "device");
  const auto begin = device->make_timing_event(), end = device->make_timing_event();
  stream->record(*begin);
  stream->zero({memory.data(), {64 << 20}, DType::f32});
  stream->record(*end);
  end->synchronize();
  const double seconds = device->seconds_between(*begin, *end);
  CHECK(seconds > 0);
  CHECK(seconds < 1);
  CHECK(device->seconds_between(*begin, *begin) == 0);
}

TEST_CASE("a failed GPU stream skips work, and nothing waits for ever", "[gpu]") {
  const auto device = gpu();
  if (!device) return;
  const auto stream = device->make_stream("failing");
  const auto event = device->make_event();
  const Buffer host = device->allocate_host(8, "host");
  auto* values = static_cast<int*>(host.data());
  values[0] = 1, values[1] = 2;
  stream->fail(std::make_exception_ptr(Error(ErrorKind::aborted, "told to")));
  stream->fail(std::make_exception_ptr(Error(ErrorKind::internal, "too late")));
  stream->copy(values, values + 1, 4);
  stream->record(*event);
  std::atomic<bool> called{false};
  stream->host_callback([&] { called = true; });
  event->synchronize();
  CHECK_THROWS_WITH(stream->synchronize(), "told to");
  CHECK(called);
  CHECK(values[0] == 1);
}

// Hidden, because it costs the process its GPU. Run it alone: test_core "[fault]".
TEST_CASE("a fault of a GPU kernel reaches streams, events and callbacks", "[.][fault]") {
  const auto device = gpu();
  if (!device) return;
  const auto stream = device->make_stream("faulting");
  const auto before = device->make_event(), after = device->make_event();
  std::atomic<int> called{0};
  stream->record(*before);
  before->synchronize();
  testing::write_nowhere(cuda_stream(*stream).native());
  stream->host_callback([&] { ++called; });
  stream->record(*after);
  after->synchronize();
  CHECK_THROWS_WITH(stream->synchronize(), Catch::Contains("cuda:0") && Catch::Contains("faulting"));
  CHECK(stream->failure() != nullptr);
  stream->host_callback([&] { ++called; });
  stream->record(*after);
  CHECK(after->query());
  test::wait_until([&] { return called >= 2; });
  CHECK(called == 2);
}

}  // namespace
}  // namespace pipetrain
