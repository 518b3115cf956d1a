// Processes that may not join, cannot join, or do not come.
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <thread>

#include "catch.hpp"
#include "comm/control/admission.hpp"
#include "comm/control/control_fixture.hpp"
#include "comm/control/raw_peer.hpp"
#include "core/error.hpp"
#include "skip.hpp"

namespace pipetrain::test {
namespace {

using Catch::Contains;
using std::chrono::milliseconds;

// Process 0 waits for another process, which may join after `attempt`.
void while_first_waits(const std::function<void(std::uint16_t port)>& attempt) {
  const std::uint16_t port = free_port();
  std::unique_ptr<ControlPlane> first;
  std::jthread waiting([&] {
    Rendezvous rendezvous = rendezvous_of(0, 2, port);
    rendezvous.settings = {{"seed", "1"}, {"model", "tiny"}};
    rendezvous.job = "Slurm job 12.0";
    first = control::join_processes(rendezvous, quick_settings());
  });
  attempt(port);
  Rendezvous rendezvous = rendezvous_of(1, 2, port);
  rendezvous.settings = {{"model", "tiny"}, {"seed", "1"}};
  rendezvous.job = "Slurm job 12.0";
  const auto second = control::join_processes(rendezvous, quick_settings());
  waiting.join();
  CHECK(first->info(1).label == "rank 1");
  in_threads(2, [&](int process) { (process == 0 ? *first : *second).leave(); });
}

Rendezvous second_of_two(std::uint16_t port) {
  Rendezvous rendezvous = rendezvous_of(1, 2, port);
  rendezvous.settings = {{"seed", "1"}, {"model", "tiny"}};
  return rendezvous;
}

// Returns the error of process 0 of a run that must refuse another process; `attempt` is that one's.
std::string error_of_first(int processes, const std::function<void(std::uint16_t port)>& attempt) {
  const std::uint16_t port = free_port();
  std::string error;
  std::jthread first([&] {
    Rendezvous rendezvous = rendezvous_of(0, processes, port);
    rendezvous.settings = {{"seed", "1"}, {"model", "tiny"}};
    error = error_of([&] { control::join_processes(rendezvous, quick_settings()); });
  });
  attempt(port);
  first.join();
  return error;
}

// Process 1 of 2 reports the values that `change` makes: its own error also ends process 0.
std::string error_of_changed(const std::function<void(Rendezvous&)>& change) {
  std::string error;
  const std::string of_first = error_of_first(2, [&](std::uint16_t port) {
    Rendezvous rendezvous = second_of_two(port);
    change(rendezvous);
    error = error_of([&] { control::join_processes(rendezvous, quick_settings()); });
  });
  const std::string prefix = "wrong input: ";
  REQUIRE(error.rfind(prefix, 0) == 0);
  CHECK_THAT(of_first,
             Contains("wrong input: process 1 (rank 1) on host ") && Contains(" was refused: " + error.substr(prefix.size())));
  return error;
}

}  // namespace

TEST_CASE("a process with another token is refused, and the run keeps waiting for the right one", "[control]") {
  for (const char* token : {"a tokem", "a token ", "a toke"}) {
    INFO(token);
    while_first_waits([&](std::uint16_t port) {
      Rendezvous rendezvous = second_of_two(port);
      rendezvous.token = token;
      CHECK_THAT(error_of([&] { control::join_processes(rendezvous, quick_settings()); }),
                 Contains("wrong input: ") && Contains("token is not the run's"));
    });
  }
}

TEST_CASE("a missing token is reported, and so is a token for a run without one", "[control]") {
  while_first_waits([&](std::uint16_t port) {
    Rendezvous rendezvous = second_of_two(port);
    rendezvous.token = "";
    CHECK_THAT(error_of([&] { control::join_processes(rendezvous, quick_settings()); }),
               Contains("wrong input: this process has no token, and the run has one"));
  });
  CHECK_THAT(control::wrong_token(bytes_of("a token"), "").why, Contains("has a token, and the run has none"));
}

TEST_CASE("a process of another job is refused with both jobs, and the run keeps waiting for its own", "[control]") {
  for (const char* job : {"Slurm job 12.1", ""}) {
    INFO(job);
    while_first_waits([&](std::uint16_t port) {
      Rendezvous rendezvous = second_of_two(port);
      rendezvous.job = job;
      CHECK_THAT(error_of([&] { control::join_processes(rendezvous, quick_settings()); }),
                 Contains("not available: 127.0.0.1:" + std::to_string(port)) &&
                     Contains("another run has that address already: it belongs to Slurm job 12.0, this process to " +
                              (*job ? std::string(job) : "no launcher's job")));
    });
  }
}

TEST_CASE("a setting that differs is named, with both values, and ends the run at once", "[control]") {
  CHECK_THAT(error_of_changed([](Rendezvous& rendezvous) { rendezvous.settings[0].second = "2"; }),
             Contains("wrong input: seed 2: process 0 has '1'"));
  CHECK_THAT(error_of_changed([](Rendezvous& rendezvous) { rendezvous.settings.pop_back(); }),
             Contains("wrong input: model: process 0 has 'tiny' and this process has none"));
  CHECK_THAT(error_of_changed([](Rendezvous& rendezvous) { rendezvous.settings.emplace_back("lr", "1e-3"); }),
             Contains("wrong input: lr 1e-3: process 0 has none"));
  std::string name;
  error_of_first(2, [&](std::uint16_t port) {
    try {
      control::join_processes(rendezvous_of(1, 2, port), quick_settings());
    } catch (const Error& error) {
      name = error.setting() != nullptr ? error.setting()->name : "no setting";
    }
  });
  CHECK(name == "seed");
}

TEST_CASE("processes of runs of another size and of other versions are refused, and end the run", "[control]") {
  CHECK_THAT(error_of_changed([](Rendezvous& rendezvous) { rendezvous.processes = 3; }),
             Contains("wrong input: ") && Contains("a run of 3 processes, process 0 for 2"));
  std::string error = error_of_first(2, [](std::uint16_t port) {
    auto settings = quick_settings();
    settings.version = 7;
    CHECK_THAT(error_of([&] { control::join_processes(rendezvous_of(1, 2, port), settings); }),
               Contains("wrong input: ") && Contains("speaks version 7") &&
                   Contains("process 0 version " + std::to_string(control::wire_version)));
  });
  CHECK_THAT(error, Contains("wrong input: a process was refused: ") && Contains("speaks version 7"));
  error = error_of_first(2, [](std::uint16_t port) {
    const auto peer = connect_when_ready(port);
    control::Hello hello = control::hello_of(rendezvous_of(1, 2, port));
    hello.program = "9.9";
    peer->send({.kind = control::FrameKind::token, .payload = bytes_of("a token")});
    peer->send({.kind = control::FrameKind::hello, .payload = to_bytes(hello)});
    CHECK_THAT(peer->refusal(), Contains("this is pipetrain 9.9, and process 0 of the run is "));
  });
  CHECK_THAT(error, Contains("was refused: this is pipetrain 9.9"));
}

TEST_CASE("two processes that claim one place: the later one is refused, and before the run begins all end", "[control]") {
  const std::string twice = "two processes claim to be process 1 of the run: pid ";
  const auto claim = [](std::uint16_t port) {
    Rendezvous rendezvous = rendezvous_of(1, 3, port);
    rendezvous.settings = {{"seed", "1"}, {"model", "tiny"}};
    return error_of([&] { control::join_processes(rendezvous, quick_settings()); });
  };
  const std::string first = error_of_first(3, [&](std::uint16_t port) {
    const auto earlier = connect_when_ready(port);
    Rendezvous rendezvous = rendezvous_of(1, 3, port);
    rendezvous.settings = {{"seed", "1"}, {"model", "tiny"}};
    earlier->greet(rendezvous);
    REQUIRE(earlier->receive()->kind == control::FrameKind::accepted);
    CHECK_THAT(claim(port), Contains("wrong input: " + twice) && Contains("came later"));
  });
  CHECK_THAT(first, Contains("wrong input: process 1 (rank 1) on host ") && Contains("was refused: " + twice));

  // A run that has begun is not disturbed.
  const std::uint16_t port = free_port();
  Planes planes(2);
  in_threads(
      2, [&](int process) { planes[process] = control::join_processes(rendezvous_of(process, 2, port), quick_settings()); });
  CHECK_THAT(error_of([&] { control::join_processes(rendezvous_of(1, 2, port), quick_settings()); }), Contains(twice));
  planes[0]->send(1, Channel::run, bytes_of("on we go"));
  leave_all(planes);
}

TEST_CASE("the place of a process that is lost before the run begins is free again", "[control]") {
  const std::uint16_t port = free_port();
  Planes planes(2);
  std::jthread first([&] { planes[0] = control::join_processes(rendezvous_of(0, 2, port), quick_settings()); });
  {
    const auto earlier = connect_when_ready(port);
    control::Hello hello = control::hello_of(rendezvous_of(1, 2, port));
    hello.info.machine = "another one";  // the run begins only once its clock has been read
    earlier->send({.kind = control::FrameKind::token, .payload = bytes_of("a token")});
    earlier->send({.kind = control::FrameKind::hello, .payload = to_bytes(hello)});
    REQUIRE(earlier->receive()->kind == control::FrameKind::accepted);
    REQUIRE(earlier->hang_up());  // until process 0 has noticed, its number is taken
  }
  planes[1] = control::join_processes(rendezvous_of(1, 2, port), quick_settings());
  first.join();
  leave_all(planes);
}

TEST_CASE("processes that do not come are named everywhere when the time is over", "[control]") {
  const std::uint16_t port = free_port();
  std::vector<std::string> errors(2);
  in_threads(2, [&](int process) {
    Rendezvous rendezvous = rendezvous_of(process, 4, port);
    if (process == 0) rendezvous.timeout = milliseconds(600);
    errors[process] = error_of([&] { control::join_processes(rendezvous, quick_settings()); });
  });
  for (const std::string& error : errors)
    CHECK_THAT(error, Contains("peer lost: process 2 and process 3 of the run's 4 did not join at 127.0.0.1:") &&
                          Contains("within 0.6 s"));
}

TEST_CASE("a process that dies before the run begins is named with the reason", "[control]") {
  const std::uint16_t port = free_port();
  std::string error;
  std::jthread first([&] {
    Rendezvous rendezvous = rendezvous_of(0, 3, port);
    rendezvous.timeout = milliseconds(1000);
    error = error_of([&] { control::join_processes(rendezvous, quick_settings()); });
  });
  {
    const auto peer = connect_when_ready(port);
    peer->greet(rendezvous_of(2, 3, port));
    REQUIRE(peer->receive()->kind == control::FrameKind::accepted);
  }
  first.join();
  CHECK_THAT(error, Contains("process 1 and process 2 (it joined and was lost: ") && Contains("killed or ended"));
}

TEST_CASE("an address that is in use, not of this host or unknown is one line", "[control]") {
  const std::uint16_t port = free_port();
  const FakeServer other(port, {});
  const auto error_at = [&](int process, const std::string& host, const std::string& token) {
    Rendezvous rendezvous = rendezvous_of(process, 2, port);
    rendezvous.host = host;
    rendezvous.token = token;
    rendezvous.timeout = milliseconds(300);
    return error_of([&] { control::join_processes(rendezvous, quick_settings()); });
  };
  CHECK_THAT(error_at(0, "127.0.0.1", ""), Contains("not available: cannot listen at 127.0.0.1:") && Contains("in use"));
  CHECK_THAT(error_at(0, "192.0.2.1", "a token"), Contains("not available: ") && Contains("it is not an address of this host"));
  CHECK_THAT(error_at(0, "no-such-host.invalid", "a token"),
             Contains("peer lost: ") && Contains("the host's address is unknown"));
  CHECK_THAT(error_at(0, "0.0.0.0", ""), Contains("wrong input: master 0.0.0.0:") && Contains("the same token"));
  CHECK_THAT(error_at(1, "192.0.2.1", ""), Contains("wrong input: master 192.0.2.1:") && Contains("the same token"));
  CHECK_THAT(
      error_at(1, "no-such-host.invalid", "a token"),
      Contains("peer lost: process 0 was not reached at no-such-host.invalid:") && Contains("the host's address is unknown"));
}

TEST_CASE("attempts to join end with the time if nobody listens, or another program", "[control]") {
  auto settings = quick_settings();
  settings.handshake = milliseconds(500);
  std::array<std::uint16_t, 3> ports{free_port()};
  const FakeServer silent(ports[0], {});
  ports[1] = free_port();
  const FakeServer web(ports[1], bytes_of("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"));
  ports[2] = free_port();
  std::array<std::string, 3> errors;
  in_threads(3, [&](int i) {
    const auto at = static_cast<std::size_t>(i);
    Rendezvous rendezvous = rendezvous_of(1, 2, ports[at]);
    rendezvous.timeout = milliseconds(1100);
    errors[at] = error_of([&] { control::join_processes(rendezvous, settings); });
  });
  CHECK_THAT(errors[0], Contains("no answer within 0.5 s"));
  CHECK_THAT(errors[1], Contains("it sent bytes that are no message of pipetrain"));
  CHECK_THAT(errors[2],
             Contains("peer lost: process 0 was not reached at 127.0.0.1:") && Contains("within 1.1 s: Connection refused"));
}

TEST_CASE("the clock of another host is compared with that of process 0", "[control]") {
  const std::uint16_t port = free_port();
  std::unique_ptr<ControlPlane> first;
  std::jthread waiting([&] { first = control::join_processes(rendezvous_of(0, 2, port), quick_settings()); });
  const auto behind = std::chrono::hours(5);
  const auto peer = connect_when_ready(port);
  control::Hello hello = control::hello_of(rendezvous_of(1, 2, port));
  hello.info.machine = "another one";
  peer->send({.kind = control::FrameKind::token, .payload = bytes_of("a token")});
  peer->send({.kind = control::FrameKind::hello, .payload = to_bytes(hello)});
  while (const auto frame = peer->receive()) {
    if (frame->kind == control::FrameKind::welcome) break;
    if (frame->kind != control::FrameKind::ping) continue;
    WireWriter writer;
    writer.number(static_cast<std::int64_t>(
        std::chrono::nanoseconds((std::chrono::steady_clock::now() - behind).time_since_epoch()).count()));
    peer->send({.kind = control::FrameKind::pong, .payload = std::move(writer).data()});
  }
  waiting.join();
  CHECK(std::chrono::abs(first->info(1).clock_offset - behind) < std::chrono::seconds(1));
  CHECK(first->info(1).machine == "another one");
}

TEST_CASE("a network namespace is a machine of its own, though memory could be shared with it", "[control]") {
  std::array<int, 2> ends{};
  REQUIRE(::pipe(ends.data()) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    if (::unshare(CLONE_NEWNET) != 0) ::_exit(77);
    const Bytes said = to_bytes(control::hello_of(rendezvous_of(1, 2, 29500)));
    ::_exit(::write(ends[1], said.data(), said.size()) == static_cast<ssize_t>(said.size()) ? 0 : 1);
  }
  ::close(ends[1]);
  Bytes said(4096);
  const ssize_t size = ::read(ends[0], said.data(), said.size());
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) return skip("needs the right to make a network namespace");
  REQUIRE(status == 0);
  const ProcessInfo here = control::hello_of(rendezvous_of(0, 2, 29500)).info;
  const ProcessInfo there = read_message<control::Hello>(std::span(said).first(static_cast<std::size_t>(size))).info;
  CHECK(there.memory_scope == here.memory_scope);
  CHECK(there.machine != here.machine);
  CHECK(here.machine == control::hello_of(rendezvous_of(0, 2, 29500)).info.machine);
}

TEST_CASE("a process may come before process 0 does", "[control]") {
  const std::uint16_t port = free_port();
  Planes planes(2);
  in_threads(2, [&](int process) {
    if (process == 0) std::this_thread::sleep_for(milliseconds(100));  // the other one tries every 20 ms
    planes[process] = control::join_processes(rendezvous_of(process, 2, port), quick_settings());
  });
  for (int process : {0, 1}) {
    CHECK(planes[static_cast<std::size_t>(process)]->process() == process);
    CHECK(planes[static_cast<std::size_t>(process)]->info(1 - process).label == "rank " + std::to_string(1 - process));
    CHECK_FALSE(planes[static_cast<std::size_t>(process)]->is_gone(1 - process));
  }
  leave_all(planes);
}

TEST_CASE("an impossible process of a run is refused at once", "[control]") {
  for (const auto& [process, processes] : {std::pair(0, 0), std::pair(2, 2), std::pair(-1, 2), std::pair(0, 70000)}) {
    CHECK_THAT(
        error_of([&, process = process, processes = processes] { join_processes(rendezvous_of(process, processes, 1)); }),
        Contains("wrong input: "));
  }
  Rendezvous rendezvous = rendezvous_of(0, 2, 1);
  rendezvous.token = std::string(5000, 'x');
  CHECK_THAT(error_of([&] { join_processes(rendezvous); }), Contains("wrong input: ") && Contains("5000 bytes"));
}

}  // namespace pipetrain::test
