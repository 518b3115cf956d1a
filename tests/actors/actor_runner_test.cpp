// Brief actors run on the thread whose message wakes them, others on the scheduler's.
#include "actors/engine/actor_runner.hpp"

#include <future>
#include <thread>

#include "catch.hpp"

namespace {

struct Ping {
  int left;  // how often it is passed on
  std::shared_ptr<std::promise<std::thread::id>> last;
};

}  // namespace

PIPETRAIN_MESSAGE(Ping)

namespace {

class Passing : public caf::event_based_actor {
 public:
  using caf::event_based_actor::event_based_actor;
  caf::behavior make_behavior() override {
    return {
        [this](caf::actor& next) { next_ = next; },
        [this](Ping& ping) {
          if (ping.left == 0) return ping.last->set_value(std::this_thread::get_id());
          --ping.left;
          send(next_, std::move(ping));
        },
    };
  }
  void on_exit() override { next_ = nullptr; }

 private:
  caf::actor next_;
};

class BriefPassing : public Passing, public pipetrain::BriefActor {
 public:
  using Passing::Passing;
};

// Which thread did the last of what one message set off, in a circle of an actor of each kind.
template <class First, class Second>
std::thread::id last_thread(int passes) {
  caf::actor_system_config config;
  pipetrain::let_idle_threads_sleep(config);
  caf::actor_system system(config);
  const caf::actor first = system.spawn<First>(), second = system.spawn<Second>();
  caf::scoped_actor self(system);
  for (const auto& [actor, next] : {std::pair(first, second), std::pair(second, first)})
    self->request(actor, caf::infinite, next).receive([] {}, [](const caf::error&) { FAIL("no answer"); });
  std::this_thread::sleep_for(std::chrono::milliseconds(5));  // until the scheduler's threads let go of them
  auto last = std::make_shared<std::promise<std::thread::id>>();
  auto result = last->get_future();
  pipetrain::ActorRunner(system).send(first, Ping{passes, std::move(last)});
  const auto thread = result.get();
  caf::anon_send_exit(first, caf::exit_reason::user_shutdown);
  caf::anon_send_exit(second, caf::exit_reason::user_shutdown);
  return thread;
}

}  // namespace

TEST_CASE("brief actors run on the thread whose message wakes them, those that they wake too") {
  for (const int passes : {0, 1, 1000}) {
    // On a busy machine a thread of the scheduler may still have an actor in hand; it goes on with what comes then.
    bool here = false;
    for (int round = 0; round < 50 && !here; ++round)
      here = last_thread<BriefPassing, BriefPassing>(passes) == std::this_thread::get_id();
    CHECK(here);
  }
}

TEST_CASE("actors that may take long never run on the thread of who wakes them") {
  CHECK(last_thread<Passing, BriefPassing>(0) != std::this_thread::get_id());
  CHECK(last_thread<BriefPassing, Passing>(1) != std::this_thread::get_id());
}
