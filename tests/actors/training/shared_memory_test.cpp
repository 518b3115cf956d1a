// Memory of a child process is opened by its parent.
#include "actors/training/copies/shared_memory.hpp"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "catch.hpp"
#include "core/error.hpp"

using namespace pipetrain;

namespace {

// A process that has written a number to the end of memory, and writes another one after each byte that it gets.
struct Writer {
  pid_t process = 0;
  int to = -1, from = -1;  // pipes
  SharedMemory::Key key;

  explicit Writer(std::size_t bytes) {
    int ask[2], answer[2];
    REQUIRE(::pipe(ask) == 0);
    REQUIRE(::pipe(answer) == 0);
    process = ::fork();
    if (process == 0) {
      const auto memory = SharedMemory::make(bytes);
      auto* const last = static_cast<unsigned char*>(memory->data()) + bytes - 1;
      *last = 1;
      if (::write(answer[1], &memory->key(), sizeof key) < 0) ::_exit(1);
      for (char byte = 0; ::read(ask[0], &byte, 1) == 1;) {
        *last = static_cast<unsigned char>(*last + 1);
        if (::write(answer[1], &byte, 1) < 0) ::_exit(1);
      }
      ::_exit(0);
    }
    to = ask[1], from = answer[0];
    ::close(ask[0]);
    ::close(answer[1]);
    REQUIRE(::read(from, &key, sizeof key) == static_cast<ssize_t>(sizeof key));
  }
  ~Writer() {
    end();
    ::close(to);
    ::close(from);
  }
  void write() const {
    char byte = 0;
    REQUIRE(::write(to, &byte, 1) == 1);
    REQUIRE(::read(from, &byte, 1) == 1);
  }
  void end() {
    if (process == 0) return;
    ::kill(process, SIGKILL);
    ::waitpid(process, nullptr, 0);
    process = 0;
  }
};

}  // namespace

TEST_CASE("memory that processes share outlives its maker", "[copies]") {
  const std::size_t bytes = GENERATE(1U, 5000U, 3U << 20);
  Writer writer(bytes);
  const auto memory = SharedMemory::open(writer.key);
  CHECK(memory->bytes() == bytes);
  CHECK(memory->key().inode == writer.key.inode);
  const auto* const last = static_cast<unsigned char*>(memory->data()) + bytes - 1;
  CHECK(*last == 1);
  writer.write();
  CHECK(*last == 2);
  writer.end();
  CHECK(*last == 2);
  const auto again = SharedMemory::open(memory->key());
  CHECK(static_cast<unsigned char*>(again->data())[bytes - 1] == 2);
}

TEST_CASE("shared memory of a process that is gone, or that is other memory, is refused", "[copies]") {
  Writer writer(4096);
  SharedMemory::Key other = writer.key;
  ++other.inode;
  CHECK_THROWS_WITH(SharedMemory::open(other), Catch::Contains("has given up memory"));
  SharedMemory::Key larger = writer.key;
  ++larger.bytes;
  CHECK_THROWS_WITH(SharedMemory::open(larger), Catch::Contains("has given up memory"));
  writer.end();
  CHECK_THROWS_WITH(SharedMemory::open(writer.key), Catch::Contains("No such file"));
}
