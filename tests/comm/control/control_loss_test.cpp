// Processes that end, stop and continue.
#include <csignal>
#include <thread>

#include "catch.hpp"
#include "comm/control/raw_peer.hpp"
#include "comm/control/reasons.hpp"
#include "comm/control/silence_watch.hpp"
#include "comm/forked_run.hpp"

namespace pipetrain::test {
namespace {

using Catch::Contains;
using std::chrono::milliseconds;

const std::string closed = control::closed_reason, silent = control::silent_reason(quick_settings().silence);

void wait_for_all(ForkedRun& run, const std::vector<int>& children) {
  for (const int process : children) REQUIRE(run.line(process) == "joined");
}

}  // namespace

TEST_CASE("a process that is killed is lost to all others at once", "[control]") {
  ForkedRun run(4, 0);
  wait_for_all(run, {1, 2, 3});
  run.signal(2, SIGKILL);
  const auto start = std::chrono::steady_clock::now();
  CHECK(run.losses().wait(1) == std::vector<std::string>{"2: " + closed});
  CHECK(run.line(1) == "2: " + closed);
  CHECK(run.line(3) == "2: " + closed);
  // It must not be noticed by its silence, which would take longer.
  CHECK(std::chrono::steady_clock::now() - start < quick_settings().silence);
  // The others still hear each other; messages to the dead process are dropped.
  Notes echoes;
  run.plane().on_message(Channel::transport, [&](int from, auto) { echoes.add(std::to_string(from)); });
  for (const int process : {2, 1, 3}) run.plane().send(process, Channel::transport, bytes_of("echo"));
  CHECK(echoes.wait(2).size() == 2);
  CHECK(run.losses().all().size() == 1);
  run.plane().leave();
}

TEST_CASE("a stopped process is lost to all others, and learns it when it continues", "[control]") {
  ForkedRun run(3, 0);
  wait_for_all(run, {1, 2});
  run.signal(2, SIGSTOP);
  CHECK(!run.plane().is_gone(2));
  CHECK(run.losses().wait(1) == std::vector<std::string>{"2: " + silent});
  CHECK(run.plane().is_gone(2));
  CHECK(!run.plane().is_gone(1));
  CHECK(run.line(1) == "2: " + silent);
  run.signal(2, SIGCONT);
  CHECK(run.line(2) == "0: it counts this process as lost: " + silent);
  run.plane().leave();
}

TEST_CASE("process 0 that is killed or stopped is lost to all others", "[control]") {
  for (const int number : {SIGKILL, SIGSTOP}) {
    ForkedRun run(3, 1);
    wait_for_all(run, {0, 2});
    run.signal(0, number);
    const std::string expected = "0: " + (number == SIGKILL ? closed : silent);
    CHECK(run.losses().wait(1) == std::vector<std::string>{expected});
    CHECK(run.line(2) == expected);
    CHECK_THAT(error_of([&] { run.plane().exchange("next", {}); }), Contains("peer lost: process 0 (rank 0) on host "));
  }
}

TEST_CASE("a run whose processes are all stopped and continued loses none", "[control]") {
  ForkedRun run(4, 0);
  const std::vector<int> others = {1, 2, 3};
  wait_for_all(run, others);
  Notes echoes;
  run.plane().on_message(Channel::transport, [&](int from, auto) { echoes.add(std::to_string(from)); });
  // This process cannot stop itself in a test; a handler that takes too long stops its I/O thread instead.
  run.plane().on_message(Channel::run, [&](int, auto) {
    for (const int process : others) run.signal(process, SIGSTOP);
    std::this_thread::sleep_for(quick_settings().silence + quick_settings().silence / 3);
    for (const int process : others) run.signal(process, SIGCONT);
  });
  run.plane().send(0, Channel::run, {});
  for (int round = 1; round <= 10; ++round) {
    for (const int process : others) run.plane().send(process, Channel::transport, bytes_of("echo"));
    REQUIRE(echoes.wait(others.size() * static_cast<std::size_t>(round)).size() ==
            others.size() * static_cast<std::size_t>(round));
    std::this_thread::sleep_for(quick_settings().heartbeat);
  }
  CHECK(run.losses().all().empty());
  for (const int process : others) run.plane().send(process, Channel::run, bytes_of("leave"));
  for (const int process : others) {
    CHECK(run.line(process) == "end");
    CHECK(run.status(process) == 0);
  }
  CHECK(run.losses().all().empty());
  run.plane().leave();
}

TEST_CASE("a process that leaves is not a loss, and neither is process 0", "[control]") {
  ForkedRun run(3, 0);
  wait_for_all(run, {1, 2});
  run.plane().send(1, Channel::run, bytes_of("leave"));
  CHECK(run.line(1) == "end");
  CHECK(run.status(1) == 0);
  run.plane().send(1, Channel::run, bytes_of("nobody hears it"));
  run.plane().send(2, Channel::run, bytes_of("settle"));
  CHECK_THAT(
      error_of([&] { run.plane().exchange("settle", {}); }),
      Contains("peer lost: process 1 (rank 1) on host ") && Contains("is gone, while the others were at 'settle': it ended"));
  CHECK_THAT(run.line(2), Contains("settle: peer lost: process 1 (rank 1)"));
  CHECK(run.plane().is_gone(1));
  CHECK(run.losses().all().empty());
  run.plane().send(2, Channel::run, bytes_of("more"));
  CHECK_THAT(run.line(2), Contains("more: peer lost: process 1"));
  run.plane().leave();
  run.plane().leave();  // once is enough
}

TEST_CASE("a control plane that ends without leaving is a loss; losses wait for their handler", "[control]") {
  Planes planes = join_all(3, quick_settings());
  Notes notes;
  planes[2]->on_lost([&](int process, const std::string& why) { notes.add(std::to_string(process) + ": " + why); });
  planes[1].reset();
  CHECK(notes.wait(1) == std::vector<std::string>{"1: " + closed});
  planes[0]->on_lost([&](int process, const std::string& why) { notes.add(std::to_string(process) + ": " + why); });
  CHECK(notes.wait(2).size() == 2);
  in_threads(2, [&](int i) { planes[i == 0 ? 0 : 2]->leave(); });
  CHECK(notes.all().size() == 2);
}

TEST_CASE("a process whose predecessor is gone tries again, and joins the next run", "[control]") {
  const std::uint16_t port = free_port();
  Planes planes(2), next(2);
  const auto join = [&](Planes& run, int process) {
    run[process] = control::join_processes(rendezvous_of(process, 2, port), quick_settings());
  };
  in_threads(2, [&](int process) { join(planes, process); });
  planes[1].reset();
  Notes lost;
  planes[0]->on_lost([&](int, const std::string& why) { lost.add(why); });
  REQUIRE(lost.wait(1).size() == 1);
  Rendezvous impatient = rendezvous_of(1, 2, port);
  impatient.timeout = milliseconds(300);
  CHECK_THAT(error_of([&] { control::join_processes(impatient, quick_settings()); }),
             Contains("peer lost: process 0 was not reached") && Contains("process 1 (rank 1) on host ") &&
                 Contains("killed or ended"));
  std::jthread restarted([&] { join(next, 1); });
  std::this_thread::sleep_for(milliseconds(60));  // it tries every 20 ms
  planes[0].reset();
  join(next, 0);
  restarted.join();
  leave_all(next);
}

TEST_CASE("exchanges wait for a process that is heard of, beyond the rendezvous' timeout, and name one that is gone",
          "[control]") {
  constexpr milliseconds limit{500};
  Planes planes = join_all(3, quick_settings(), [&](Rendezvous& rendezvous) { rendezvous.timeout = limit; });
  std::vector<std::size_t> parts(3);
  in_threads(3, [&](int process) {  // process 0 takes long to load
    if (process == 0) std::this_thread::sleep_for(limit + quick_settings().silence);
    parts[process] = planes[process]->exchange("loaded", {}).size();
  });
  CHECK(parts == std::vector<std::size_t>{3, 3, 3});
  std::vector<std::string> errors(2);
  in_threads(3, [&](int process) {
    if (process == 2) {
      std::this_thread::sleep_for(limit + limit / 4);
      planes[2].reset();
    } else {
      errors[process] = error_of([&] { planes[process]->exchange("buffers", {}); });
    }
  });
  for (const std::string& error : errors)
    CHECK_THAT(error,
               Contains("peer lost: process 2 (rank 2) on host ") && Contains("at 'buffers'") && Contains("killed or ended"));
}

TEST_CASE("exchanges do not wait for ever for a process whose main thread hangs", "[control]") {
  auto settings = quick_settings();
  settings.patience = milliseconds(300);
  Planes planes = join_all(3, settings);
  in_threads(2, [&](int process) {
    CHECK_THAT(error_of([&] { planes[process]->exchange("loaded", {}); }),
               Contains("peer lost: process 2 (rank 2) on host ") && Contains("did not come to 'loaded' within 0.3 s") &&
                   Contains("hangs, or the stall timeout is too short"));
  });
  leave_all(planes);
}

TEST_CASE("a handler that cannot take a message loses its sender", "[control]") {
  Planes planes = join_all(3, quick_settings());
  Notes notes;
  planes[2]->on_lost([&](int process, const std::string& why) { notes.add(std::to_string(process) + ": " + why); });
  planes[2]->on_message(Channel::engine, [&](int, std::span<const std::byte> message) { WireReader(message).text(); });
  planes[1]->send(2, Channel::engine, bytes_of("xyz"));
  REQUIRE(notes.wait(1).size() == 1);
  CHECK_THAT(notes.all()[0], Contains("1: its message could not be handled: ") && Contains("fewer bytes than it claims"));
  leave_all(planes);
}

TEST_CASE("a watch of silence that stood still itself begins again", "[control]") {
  using Time = control::SilenceWatch::Clock::time_point;
  const auto at = [](int ms) { return Time(milliseconds(100'000 + ms)); };
  control::SilenceWatch watch(milliseconds(250), milliseconds(2500));
  for (int ms = 0; ms <= 3000; ms += 250) {
    watch.tick(at(ms));
    CHECK(watch.silent(at(0), at(ms)) == (ms > 2500));
    CHECK_FALSE(watch.silent(at(ms - 300), at(ms)));
  }
  watch.tick(at(9000));
  CHECK_FALSE(watch.silent(at(0), at(9000)));
  for (int ms = 9250; ms <= 11'750; ms += 250) watch.tick(at(ms));
  CHECK_FALSE(watch.silent(at(0), at(11'500)));
  CHECK(watch.silent(at(0), at(11'750)));
}

}  // namespace pipetrain::test
