#include "comm/ucx/ucx_shared_memory.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "catch.hpp"
#include "comm/shared_control.hpp"
#include "comm/ucx/ucx_edge_table.hpp"
#include "core/device.hpp"
#include "core/error.hpp"

using namespace pipetrain;

TEST_CASE("another process reads what the owner of shared memory writes, and nothing outside of it") {
  constexpr std::size_t bytes = 100000;
  test::SharedControl shared(2);
  const auto wrong = test::in_processes(2, [&](int process) {
    const auto control = shared.plane(process);
    const auto device = make_cpu_device(0, 1);
    SharedBuffer own = allocate_shared(*device, bytes, "test");
    test::require(own.name && own.memory.bytes() >= bytes, "no memory to share");
    const auto name = read_message<SharedMemoryName>(control->exchange("names", to_bytes(*own.name)).front());
    const auto mapped = process == 1 ? MappedMemory::open(control->info(0).pid, name) : nullptr;
    control->exchange("mapped", {});
    if (process == 0) std::memset(own.memory.data(), 7, bytes);
    control->exchange("written", {});
    if (process == 0) return;
    test::require(mapped != nullptr, "it cannot be mapped");
    const std::byte* last = mapped->at(name.address + bytes - 1, 1);
    test::require(last != nullptr && *last == std::byte{7}, "other bytes than were written");
    test::require(mapped->at(name.address, name.bytes) != nullptr, "not all of it");
    test::require(mapped->at(name.address - 1, 1) == nullptr && mapped->at(name.address, name.bytes + 1) == nullptr &&
                      mapped->at(name.address + name.bytes + 1, 0) == nullptr && mapped->at(name.address + 1, ~0ULL) == nullptr,
                  "more than all of it");
  });
  for (const auto& line : wrong) UNSCOPED_INFO(line);
  CHECK(wrong.empty());
}

TEST_CASE("memory of another secret, size or kind is not mapped") {
  const auto device = make_cpu_device(0, 1);
  const SharedBuffer buffer = allocate_shared(*device, 5000, "test");
  REQUIRE(buffer.name);
  const SharedMemoryName right = *buffer.name;
  CHECK(MappedMemory::open(getpid(), right));

  SharedMemoryName wrong = right;
  wrong.secret ^= 1;
  CHECK_FALSE(MappedMemory::open(getpid(), wrong));
  wrong = right;
  wrong.bytes += 8;
  CHECK_FALSE(MappedMemory::open(getpid(), wrong));
  wrong.bytes = ~std::uint64_t{0};
  CHECK_FALSE(MappedMemory::open(getpid(), wrong));
  CHECK_FALSE(MappedMemory::open(-1, right));
  int ends[2];
  REQUIRE(::pipe(ends) == 0);  // opening it would wait for another process at the other end
  for (const int file : {ends[0], ends[1], -1, 1 << 30}) {
    wrong = right;
    wrong.file = file;
    CHECK_FALSE(MappedMemory::open(getpid(), wrong));
  }
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST_CASE("more shared memory than there is free is refused") {
  const auto device = make_cpu_device(0, 1);
  try {
    allocate_shared(*device, std::size_t{1} << 60, "what goes to process 1");
    FAIL("it was given");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::out_of_memory);
    CHECK(std::string(error.what()).find("what goes to process 1") != std::string::npos);
  }
}

TEST_CASE("a description of mirrors that no process should send is refused") {
  std::mt19937_64 random(5);
  for (int i = 0; i < 2000; ++i) {
    Bytes bytes(random() % 100);
    for (auto& byte : bytes) byte = static_cast<std::byte>(random() % 3);
    try {
      (void)mirrors_for(0, {bytes});
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::peer_lost);
    }
  }
  CHECK_THROWS(mirrors_for(0, {Bytes()}));
  CHECK(mirrors_for(0, {describe_mirrors({})}).empty());
}
