// The effect of the first signal, whatever the program waits for.
#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "apps/live_run.hpp"
#include "apps/pipetrain_program.hpp"
#include "catch.hpp"

using namespace pipetrain;
namespace fs = std::filesystem;
using Catch::Matchers::Contains;

namespace {

const std::string small_signalled = "--device cpu --seq-len 8 --layers 1 --microbatches 1 ";

// A pipe of two pages, which this process opens without reading.
class UnreadPipe {
 public:
  explicit UnreadPipe(const fs::path& path) {
    REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
    descriptor_ = ::open(path.c_str(), O_RDWR | O_NONBLOCK);
    REQUIRE(::fcntl(descriptor_, F_SETPIPE_SZ, 8192) > 0);
  }
  ~UnreadPipe() { ::close(descriptor_); }
  int bytes() const {
    int count = 0;
    ::ioctl(descriptor_, FIONREAD, &count);
    return count;
  }
  // Returns true if poll() makes a writer wait.
  bool is_full() const {
    pollfd ready{descriptor_, POLLOUT, 0};
    return ::poll(&ready, 1, 0) == 0;
  }

 private:
  int descriptor_ = -1;
};

std::size_t lines_of_metrics(const fs::path& file) {
  const std::string text = read_file(file);
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

// Waits until the run writes nothing more to the file.
void wait_until_still(const LiveRun& run, const fs::path& file) {
  std::size_t before = 0;
  run.wait_until([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    const std::size_t now = lines_of_metrics(file);
    return now > 0 && now == std::exchange(before, now);
  });
}

}  // namespace

TEST_CASE("a terminal that goes away ends a run as SIGTERM does: the step is finished, and saved") {
  const TempFolder folder;
  const fs::path save = folder.path() / "run", metrics = folder.path() / "m.jsonl";
  LiveRun run(small_signalled + "--steps 1000000 --save " + save.string() + " --metrics " + metrics.string());
  run.wait_until([&] { return lines_of_metrics(metrics) > 2; });
  CHECK(run.end_by(SIGHUP) == 129);
  CHECK_THAT(run.err(), Contains("stopped by SIGHUP after step "));  // short steps may end before anything else is printed
  CHECK(names_in(save).size() == 1);
}

TEST_CASE("a crash prints no stack of UCX's") {
  const TempFolder folder;
  const fs::path metrics = folder.path() / "m.jsonl";
  LiveRun run(small_signalled + "--steps 1000000 --metrics " + metrics.string());
  run.wait_until([&] { return lines_of_metrics(metrics) > 2; });
  CHECK(run.end_by(SIGSEGV) != 0);
  CHECK_THAT(run.err(), !Contains("==== backtrace"));
}

TEST_CASE("signals that are ignored from the start stay so") {
  const TempFolder folder;
  const fs::path metrics = folder.path() / "m.jsonl";
  LiveRun run(small_signalled + "--steps 1000000 --metrics " + metrics.string(), "trap '' INT HUP;");
  run.wait_until([&] { return lines_of_metrics(metrics) > 2; });
  for (const int number : {SIGINT, SIGHUP}) {
    run.signal(number);
    const std::size_t before = lines_of_metrics(metrics);
    run.wait_until([&] { return lines_of_metrics(metrics) > before + 20; });  // a run that stops would finish one step
  }
  CHECK(run.end_by(SIGTERM) == 143);
}

TEST_CASE("a run that waits for a reader of its metrics ends at the first signal") {
  const TempFolder folder;
  const std::string pipe = (folder.path() / "pipe").string();
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  LiveRun run(small_signalled + "--steps 5 --metrics " + pipe);
  run.wait_until([&] { return run.catches(SIGTERM); });
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // it looks for a reader every 50 ms
  CHECK(run.end_by(SIGTERM) == 143);
  CHECK(run.err() == "stopped by SIGTERM\n");
}

TEST_CASE("metrics that nobody reads do not delay a stopped run, which is saved") {
  const TempFolder folder;
  const fs::path save = folder.path() / "run", pipe = folder.path() / "pipe";
  const UnreadPipe unread(pipe);
  LiveRun run(small_signalled + "--steps 1000000 --save " + save.string() + " --metrics " + pipe.string());
  run.wait_until([&] { return unread.is_full(); });
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // it reaches the line that does not fit
  CHECK(run.end_by(SIGTERM) == 143);
  CHECK_THAT(run.err(), Contains("--metrics " + pipe.string() + ": nobody read it when the run was stopped by SIGTERM") &&
                            Contains("continue with the same command and --resume"));
  CHECK(names_in(save).size() == 1);
}

TEST_CASE("a trace that nobody reads does not delay a stopped run, nor cost its weights") {
  const TempFolder folder;
  const fs::path save = folder.path() / "run", pipe = folder.path() / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  LiveRun run(small_signalled + "--steps 2 --save " + save.string() + " --trace " + pipe.string());
  run.wait_until([&] { return fs::exists(save / "results.json"); });  // the trace comes next
  CHECK(run.end_by(SIGTERM) == 143);
  CHECK_THAT(run.err(), Contains("--trace " + pipe.string() + ": nobody read it when the run was stopped by SIGTERM"));
  CHECK(names_in(save) == std::vector<std::string>{"model", "results.json", "step-00000002"});
}

TEST_CASE("progress that nobody reads does not delay a stopped run, which is saved") {
  const TempFolder folder;
  const fs::path save = folder.path() / "run", metrics = folder.path() / "m.jsonl", pipe = folder.path() / "pipe";
  const UnreadPipe unread(pipe);
  LiveRun run(small_signalled + "--steps 1000000 --save " + save.string() + " --metrics " + metrics.string() +
              " > /dev/null 2> " + pipe.string() + " #");  // without the redirections of other runs
  run.wait_until([&] { return unread.is_full(); });
  wait_until_still(run, metrics);
  CHECK(unread.bytes() > 4000);
  CHECK(run.end_by(SIGTERM) == 143);
  CHECK(names_in(save).size() == 1);
}
