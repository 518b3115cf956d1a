// Memory of a child process is read from outside.
#include "core/process_memory.hpp"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <vector>

#include "catch.hpp"

using pipetrain::read_process_memory;

TEST_CASE("the memory of another process is read, in one piece or many", "[core]") {
  const std::size_t count = GENERATE(1U, 1000U, 20'000'000U);
  std::vector<std::uint32_t> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<std::uint32_t>(i * 2654435761U + 1);
  const pid_t child = fork();
  if (child == 0)
    for (;;) pause();
  const std::vector<std::uint32_t> expected = values;
  values.assign(count, 0);  // the child's pages keep their numbers
  std::vector<std::uint32_t> read(count);
  const auto address = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(values.data()));
  const bool could = read_process_memory(child, address, read.data(), count * sizeof(std::uint32_t));
  const bool read_nowhere = read_process_memory(child, 8, read.data() + count - 1, sizeof(std::uint32_t));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  REQUIRE(could);
  CHECK(read == expected);
  CHECK_FALSE(read_nowhere);
  CHECK_FALSE(read_process_memory(child, address, read.data(), sizeof(std::uint32_t)));
}
