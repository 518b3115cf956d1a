// Brief actors run on the thread whose message wakes them, others on the scheduler's.
#include "actors/engine/actor_runner.hpp"

#include <future>
#include <thread>

#include "catch.hpp"
#include "wait_until.hpp"

namespace {

struct Ping {
  int left;  // how often it is still passed on
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

class QueueLike : public BriefPassing {
 public:
  using BriefPassing::BriefPassing;
  bool only_passes_on() const override { return true; }
};

// Acts as a stage: it answers a Begin by sending to an actor that passes it on to another, and then notes whether that
// one has run meanwhile.
struct Begin {
  caf::actor through;
  std::shared_ptr<std::promise<std::thread::id>> passed;
  std::shared_ptr<std::promise<bool>> within_the_turn;
};

}  // namespace

PIPETRAIN_MESSAGE(Begin)

namespace {

class Turning : public caf::event_based_actor {
 public:
  using caf::event_based_actor::event_based_actor;
  caf::behavior make_behavior() override {
    return {
        [this](Begin& begin) {
          auto passed = begin.passed->get_future();
          send(begin.through, Ping{0, begin.passed});
          begin.within_the_turn->set_value(passed.wait_for(std::chrono::seconds(0)) == std::future_status::ready &&
                                           passed.get() == std::this_thread::get_id());
        },
    };
  }
  resume_result resume(caf::execution_unit* unit, std::size_t most_messages) override {
    pipetrain::ForwardingUnit turn(*unit);
    return caf::event_based_actor::resume(&turn, most_messages);
  }
};

// Returns true if the scheduler's threads have released the actor, so that a message's sender resumes it.
bool is_idle(const caf::actor& actor) {
  return dynamic_cast<caf::scheduled_actor&>(*caf::actor_cast<caf::abstract_actor*>(actor)).mailbox().blocked();
}

template <class Through>
bool passes_within_the_turn() {
  caf::actor_system_config config;
  pipetrain::let_idle_threads_sleep(config);
  caf::actor_system system(config);
  const caf::actor stage = system.spawn<Turning>(), through = system.spawn<Through>();
  REQUIRE(pipetrain::test::wait_until([&] { return is_idle(stage) && is_idle(through); }));
  auto within = std::make_shared<std::promise<bool>>();
  auto result = within->get_future();
  caf::anon_send(stage, Begin{through, std::make_shared<std::promise<std::thread::id>>(), std::move(within)});
  const bool yes = result.get();
  caf::anon_send_exit(stage, caf::exit_reason::user_shutdown);
  caf::anon_send_exit(through, caf::exit_reason::user_shutdown);
  return yes;
}

// Sends one message around a circle of an actor of each kind, and returns the thread of the last action.
template <class First, class Second>
std::thread::id last_thread(int passes) {
  caf::actor_system_config config;
  pipetrain::let_idle_threads_sleep(config);
  caf::actor_system system(config);
  const caf::actor first = system.spawn<First>(), second = system.spawn<Second>();
  caf::scoped_actor self(system);
  for (const auto& [actor, next] : {std::pair(first, second), std::pair(second, first)})
    self->request(actor, caf::infinite, next).receive([] {}, [](const caf::error&) { FAIL("no answer"); });
  REQUIRE(pipetrain::test::wait_until([&] { return is_idle(first) && is_idle(second); }));
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
    // On a busy machine a thread of the scheduler may still hold an actor, and then it handles the next message too.
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

TEST_CASE("actors that only pass messages on do so within the turn of who sends to them, others never") {
  bool within = false;
  for (int round = 0; round < 50 && !within; ++round) within = passes_within_the_turn<QueueLike>();
  CHECK(within);
}
