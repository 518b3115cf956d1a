// Processes that are left of a run gather and are counted anew.
#include "comm/successive_planes.hpp"

#include <atomic>
#include <barrier>
#include <chrono>
#include <thread>

#include "catch.hpp"
#include "control_fixture.hpp"
#include "core/error.hpp"

using namespace pipetrain;
using namespace pipetrain::test;

namespace {

using control::SuccessivePlanes;

// Begins the run of `processes` threads and lets each do its work.
void in_successive_planes(int processes, const std::function<void(int, std::unique_ptr<SuccessivePlanes>)>& work) {
  const std::uint16_t port = free_port();
  std::atomic<int> begun{0};
  in_threads(processes, [&](int process) {
    const Rendezvous rendezvous = rendezvous_of(process, processes, port);
    std::shared_ptr<ControlPlane> first = control::join_processes(rendezvous, quick_settings());
    auto planes = std::make_unique<SuccessivePlanes>(rendezvous, quick_settings(), std::move(first));
    ++begun;
    while (begun < processes) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    work(process, std::move(planes));
  });
}

void wait_until_lost(const SuccessivePlanes& planes, int process) {
  while (!planes.current()->is_lost(process)) std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

std::string numbers_of(ControlPlane& plane) {
  std::string text;
  for (const Bytes& bytes : plane.exchange("numbers", bytes_of(std::to_string(plane.process())))) text += text_of(bytes) + " ";
  return text;
}

}  // namespace

TEST_CASE("the processes that are left of a run are counted anew", "[control][takeover]") {
  Notes notes;
  in_successive_planes(4, [&](int process, std::unique_ptr<SuccessivePlanes> planes) {
    if (process == 1) return;  // lost, because it does not leave
    wait_until_lost(*planes, 1);
    planes->gather();
    const std::shared_ptr<ControlPlane> plane = planes->current();
    CHECK(planes->membership() == 2);
    CHECK(plane->processes() == 3);
    CHECK(planes->first_number(plane->process()) == process);
    notes.add(numbers_of(*plane));
    plane->leave();
  });
  CHECK(notes.all() == std::vector<std::string>(3, "0 1 2 "));
}

TEST_CASE("a run gathers again after each loss, until one process is left", "[control][takeover]") {
  std::barrier counted(3);  // nobody leaves while others still count
  in_successive_planes(3, [&](int process, std::unique_ptr<SuccessivePlanes> planes) {
    for (int lost = 2; lost > 0; --lost) {
      if (process == lost) return counted.arrive_and_drop();
      wait_until_lost(*planes, lost);
      planes->gather();
      CHECK(planes->current()->processes() == lost);
      CHECK(numbers_of(*planes->current()) == (lost == 2 ? "0 1 " : "0 "));
      counted.arrive_and_wait();
    }
    planes->current()->leave();
  });
}

TEST_CASE("the rest of a run gathers at the next process when process 0 is lost", "[control][takeover]") {
  Notes notes;
  in_successive_planes(4, [&](int process, std::unique_ptr<SuccessivePlanes> planes) {
    if (process == 0) return;
    wait_until_lost(*planes, 0);
    planes->gather();
    const std::shared_ptr<ControlPlane> plane = planes->current();
    CHECK(plane->process() == process - 1);
    CHECK(planes->first_number(plane->process()) == process);
    notes.add(numbers_of(*plane));
    plane->leave();
  });
  CHECK(notes.all() == std::vector<std::string>(3, "0 1 2 "));
}

TEST_CASE("half of a run without process 0 goes on only where it may", "[control][takeover]") {
  const bool may_go_on = GENERATE(true, false);
  in_successive_planes(2, [&](int process, std::unique_ptr<SuccessivePlanes> planes) {
    if (process == 0) return;
    planes->on_half([&] { return may_go_on; });
    wait_until_lost(*planes, 0);
    const std::string error = error_of([&] { planes->gather(); });
    CHECK((error == "nothing") == may_go_on);
    CHECK(planes->membership() == (may_go_on ? 2 : 1));
    planes->current()->leave();
  });
}

TEST_CASE("messages of a new membership reach the handlers that it begins with", "[control][takeover]") {
  Notes notes;
  in_successive_planes(3, [&](int process, std::unique_ptr<SuccessivePlanes> planes) {
    planes->on_begin([&](ControlPlane& plane) {
      plane.on_message(Channel::run, [&](int, std::span<const std::byte> bytes) { notes.add(text_of(bytes)); });
    });
    if (process == 1) return planes->on_begin({});
    wait_until_lost(*planes, 1);
    planes->gather();
    const std::shared_ptr<ControlPlane> plane = planes->current();
    if (process == 2) plane->send(0, Channel::run, bytes_of("from process 2"));
    if (process == 0) CHECK(notes.wait(1) == std::vector<std::string>{"from process 2"});
    plane->exchange("end", {});
    planes->on_begin({});
    plane->on_message(Channel::run, {});
    plane->leave();
  });
}

namespace {

// Lets process 0 look at its door until this many newcomers are ready.
void wait_until_ready(SuccessivePlanes& planes, std::size_t newcomers) {
  while (planes.newcomers({{"data", "a"}}).size() < newcomers) std::this_thread::sleep_for(std::chrono::milliseconds(2));
}

Rendezvous at_door(const SuccessivePlanes& planes) {
  const std::string door = planes.door();
  Rendezvous rendezvous = rendezvous_of(1, 2, static_cast<std::uint16_t>(std::stoi(door.substr(door.find(':') + 1))));
  return rendezvous;
}

}  // namespace

TEST_CASE("processes join a run that has begun and learn its layout", "[control][takeover]") {
  Notes notes;
  std::atomic<bool> joined{false};
  in_successive_planes(2, [&](int process, std::unique_ptr<SuccessivePlanes> planes) {
    planes->set_runs(true);
    planes->set_layout({3, "pp 4"});
    std::thread newcomer;
    if (process == 0) {
      newcomer = std::thread([&, rendezvous = at_door(*planes)] {
        SuccessivePlanes own(rendezvous, quick_settings());
        own.join({{"data", "a"}});
        CHECK(own.membership() == 2);
        CHECK(own.layout().text == "pp 4");
        CHECK(own.first_number(own.current()->process()) == 2);
        CHECK(own.all_run());
        notes.add(numbers_of(*own.current()));
        own.current()->leave();
      });
      wait_until_ready(*planes, 1);
      planes->admit();
      joined = true;
    }
    while (!joined) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    planes->gather();
    CHECK(planes->joined() == 1);
    CHECK(planes->current()->processes() == 3);
    notes.add(numbers_of(*planes->current()));
    if (process != 0) planes->current()->leave();
    if (newcomer.joinable()) newcomer.join();
    if (process == 0) planes->current()->leave();
  });
  CHECK(notes.all() == std::vector<std::string>(3, "0 1 2 "));
}

TEST_CASE("a run refuses newcomers with another token or other contents and goes on", "[control][takeover]") {
  in_successive_planes(2, [&](int process, std::unique_ptr<SuccessivePlanes> planes) {
    if (process == 0) {
      std::atomic<bool> over{false};
      std::thread newcomers([&, rendezvous = at_door(*planes)] {
        Rendezvous stranger = rendezvous;
        stranger.token = "another";
        CHECK_THROWS_WITH(SuccessivePlanes(stranger, quick_settings()), Catch::Matchers::Contains("token"));
        SuccessivePlanes other(rendezvous, quick_settings());
        CHECK_THROWS_WITH(other.join({{"data", "b"}}), Catch::Matchers::Contains("data b: process 0 has 'a'"));
        over = true;
      });
      while (!over) {
        CHECK(planes->newcomers({{"data", "a"}}).empty());
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      }
      newcomers.join();
    }
    planes->current()->exchange("end", {});
    if (process != 0) planes->current()->leave();
    planes->current()->leave();
  });
}
