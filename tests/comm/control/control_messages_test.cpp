// The messages between healthy processes of a run.
#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "catch.hpp"
#include "comm/control/control_fixture.hpp"

namespace pipetrain::test {
namespace {

std::string who(int from, std::span<const std::byte> message) { return std::to_string(from) + ": " + text_of(message); }

}  // namespace

TEST_CASE("processes of a run find each other and know who the others are", "[control]") {
  for (const int processes : {1, 2, 4, 8}) {
    INFO(processes << " processes");
    Planes planes = join_all(processes);
    for (const auto& plane : planes) {
      REQUIRE(plane->processes() == processes);
      for (int process = 0; process < processes; ++process) {
        const ProcessInfo& info = plane->info(process);
        CHECK(info.process == process);
        CHECK(info.label == "rank " + std::to_string(process));
        CHECK(info.pid == ::getpid());
        CHECK(info.clock_offset.count() == 0);  // they are on one host
        CHECK(info.machine == planes[0]->info(0).machine);
        CHECK(to_string(info) ==
              "process " + std::to_string(process) + " (rank " + std::to_string(process) + ") on host " + info.host);
      }
    }
    leave_all(planes);
  }
}

TEST_CASE("messages from one process to another arrive in order, each at its channel, from all to all", "[control]") {
  constexpr int processes = 4, messages = 500;
  Planes planes = join_all(processes);
  std::vector<Notes> engine(processes), transport(processes);
  for (int process = 0; process < processes; ++process) {
    planes[process]->on_message(Channel::engine,
                                [&, process](int from, auto message) { engine[process].add(who(from, message)); });
    planes[process]->on_message(Channel::transport,
                                [&, process](int from, auto message) { transport[process].add(who(from, message)); });
  }
  in_threads(processes, [&](int process) {
    for (int i = 0; i < messages; ++i) {
      for (int to = 0; to < processes; ++to)
        planes[process]->send(to, i % 2 == 0 ? Channel::engine : Channel::transport, bytes_of(std::to_string(i)));
    }
  });
  for (int process = 0; process < processes; ++process) {
    for (const auto* notes : {&engine[process], &transport[process]}) {
      const auto all = notes->wait(processes * messages / 2);
      REQUIRE(all.size() == processes * messages / 2);
      std::vector<int> next(processes, notes == &engine[process] ? 0 : 1);
      for (const std::string& note : all) {
        const int from = note[0] - '0';
        REQUIRE(note == std::to_string(from) + ": " + std::to_string(next[from]));
        next[from] += 2;
      }
    }
  }
  leave_all(planes);
}

TEST_CASE("messages wait for their handler, and for the next one where one is removed", "[control]") {
  Planes planes = join_all(3);
  Notes notes, marks;
  planes[2]->on_message(Channel::transport, [&](int, auto message) { marks.add(text_of(message)); });
  const auto send = [&](const std::vector<std::string>& texts) {
    const std::size_t before = marks.all().size();
    for (const std::string& text : texts) planes[1]->send(2, Channel::run, bytes_of(text));
    planes[1]->send(2, Channel::transport, bytes_of("all sent"));
    REQUIRE(marks.wait(before + 1).size() == before + 1);  // the messages have arrived before it
  };
  send({"a", "b", "c"});
  planes[2]->on_message(Channel::run, [&](int, auto message) { notes.add(text_of(message)); });
  CHECK(notes.wait(3) == std::vector<std::string>{"a", "b", "c"});
  planes[2]->on_message(Channel::run, nullptr);
  send({"d"});
  CHECK(notes.all().size() == 3);
  planes[2]->on_message(Channel::run, [&](int, auto message) {
    notes.add(text_of(message));
    planes[2]->on_message(Channel::run, nullptr);  // within its own call
  });
  CHECK(notes.wait(4).back() == "d");
  send({"e"});
  CHECK(notes.all().size() == 4);
  leave_all(planes);
}

TEST_CASE("messages may be as long as the limit, and no longer", "[control]") {
  Planes planes = join_all(3);
  Notes notes;
  planes[2]->on_message(Channel::engine, [&](int from, auto message) {
    notes.add(std::to_string(from) + " " + std::to_string(message.size()) + " " +
              std::to_string(std::to_integer<int>(message[message.size() - 1])));
  });
  Bytes longest(ControlPlane::max_message_bytes, std::byte{7});
  planes[0]->send(2, Channel::engine, longest);
  planes[1]->send(2, Channel::engine, longest);
  const auto all = notes.wait(2);
  const std::string size = std::to_string(ControlPlane::max_message_bytes);
  CHECK(std::is_permutation(all.begin(), all.end(), std::vector{"0 " + size + " 7", "1 " + size + " 7"}.begin()));
  longest.push_back({});
  CHECK_THROWS_WITH(planes[0]->send(2, Channel::engine, longest), Catch::Contains("too long"));
  leave_all(planes);
}

TEST_CASE("an exchange gives every process what each one gave", "[control]") {
  constexpr int processes = 4;
  Planes planes = join_all(processes);
  std::atomic<int> wrong = 0;
  in_threads(processes, [&](int process) {
    for (int round = 0; round < 20; ++round) {
      const std::string mine = std::to_string(process) + std::string(static_cast<std::size_t>(round) * 1000, 'x');
      const auto given = planes[process]->exchange("round " + std::to_string(round), bytes_of(mine));
      for (int other = 0; other < processes; ++other) {
        if (text_of(given[other]) != std::to_string(other) + mine.substr(1)) ++wrong;
      }
    }
  });
  CHECK(wrong == 0);
  leave_all(planes);
}

TEST_CASE("processes that exchange under different keys get an error", "[control]") {
  Planes planes = join_all(2);
  std::vector<std::string> errors(2);
  in_threads(2, [&](int process) {
    errors[process] = error_of([&] { planes[process]->exchange(process == 0 ? "edges" : "groups", {}); });
  });
  CHECK_THAT(errors[0],
             Catch::Contains("internal error: at 'edges', process 1 (rank 1) on host ") && Catch::Contains(" is at 'groups'"));
  CHECK_THAT(errors[1], Catch::Contains("internal error: at 'groups', process 0 "));
  leave_all(planes);
}

}  // namespace pipetrain::test
