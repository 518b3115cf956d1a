// Runs over real processes that lose some of them: those that are left take over, and steps, losses and weights are those
// of the undisturbed run, to the bit.
#include <csignal>
#include <thread>

#include "actors/real_processes.hpp"
#include "actors/tiny_run.hpp"
#include "catch.hpp"
#include "core/error.hpp"
#include "wait_until.hpp"

using namespace pipetrain;
using namespace pipetrain::test;

namespace {

constexpr std::int64_t takeover_steps = 5;

TinyRun elastic_run(const Layout& layout) {
  TinyRun tiny;
  tiny.layers = 4;
  tiny.dropout = 0.1;
  tiny.elastic = true;
  tiny.layout = layout;
  return tiny;
}

RunRecord undisturbed(TinyRun tiny) {
  tiny.elastic = tiny.post_validation = false;
  return run(job_of(tiny), takeover_steps);
}

// True when the steps that `rest` has are the last ones of `whole`, and both end with the same weights.
bool ends_as(RunRecord rest, const RunRecord& whole) {
  for (auto part : {&RunRecord::loss, &RunRecord::grad_norm, &RunRecord::aux_loss, &RunRecord::learning_rate}) {
    const auto gone = std::ssize(whole.*part) - std::ssize(rest.*part);
    if (gone < 0) return false;
    (rest.*part).insert((rest.*part).begin(), (whole.*part).begin(), (whole.*part).begin() + gone);
  }
  rest.tokens = whole.tokens;
  return rest == whole;
}

// The run continues after the step before the lost one, or one earlier where copies had not arrived at a buddy.
void check_step_before(const Takeover& takeover, std::int64_t lost_step) {
  CHECK(takeover.step < lost_step);
  CHECK(takeover.step >= lost_step - 2);
}

// Steps of process 0; keeps the takeovers that they report.
std::function<StepReport(Trainer&)> counting(std::vector<Takeover>& takeovers) {
  return [&takeovers](Trainer& trainer) {
    StepReport report = trainer.step(trainer.steps_done() + 1 < takeover_steps);
    takeovers.insert(takeovers.end(), report.takeovers.begin(), report.takeovers.end());
    return report;
  };
}

struct LostMember {
  int processes, own;  // `own` is the number of this process
  std::string kind;
};

// Another process than this one fails in step 3: that of the last rank, or process 0.
void check_takeover(const LostMember& lost, const TinyRun& tiny, const RunRecord& expected) {
  const int rank = lost.own == 0 ? tiny.layout.dp * tiny.layout.pp * tiny.layout.tp - 1 : 0;
  Followers followers(
      lost.processes, tiny,
      {"TEST_FAULT=" + std::to_string(rank) + ":3:" + lost.kind, "TEST_STEPS=" + std::to_string(takeover_steps)}, lost.own);
  std::vector<Takeover> takeovers;
  CHECK(ends_as(run(followers.job(), takeover_steps, counting(takeovers)), expected));
  REQUIRE(takeovers.size() == 1);
  check_step_before(takeovers.front(), 3);
}

}  // namespace

TEST_CASE("the rest of a run takes over from a process that ends", "[takeover][processes]") {
  const auto [layout, processes] = GENERATE(table<Layout, int>({
      {{.dp = 2}, 2},
      {{.pp = 2, .dp = 2}, 2},
      {{.pp = 2, .dp = 2}, 4},
      {{.tp = 2, .dp = 2}, 4},
      {{.dp = 3}, 3},
      {{.pp = 2}, 2},
      {{.pp = 4}, 3},
      {{.tp = 2}, 2},
      {{.pp = 2, .dp = 2, .zero = 1}, 4},
      {{.dp = 2, .zero = 2}, 2},
      {{.pp = 2, .dp = 2, .zero = 3}, 2},
  }));
  const TinyRun tiny = elastic_run(layout);
  INFO(to_string(tiny) << " in " << processes << " processes");
  const RunRecord expected = undisturbed(tiny);
  const int last_rank = layout.dp * layout.pp * layout.tp - 1;
  Followers followers(processes, tiny, {"TEST_FAULT=" + std::to_string(last_rank) + ":3:exit"});
  std::vector<Takeover> takeovers;
  CHECK((run(followers.job(), takeover_steps, counting(takeovers)) == expected));
  REQUIRE(takeovers.size() == 1);
  CHECK(takeovers.front().membership == 2);
  CHECK(takeovers.front().processes == processes - 1);
  check_step_before(takeovers.front(), 3);
  CHECK(takeovers.front().taken.back().rank == last_rank);
  const auto ends = followers.wait();
  for (int process = 1; process < processes - 1; ++process) CHECK(ends[static_cast<std::size_t>(process) - 1] == "");
}

TEST_CASE("the rest of a run takes over states from memory that it shares with a process that ends", "[takeover][processes]") {
  const auto [layout, processes] = GENERATE(table<Layout, int>({
      {{.pp = 2}, 2},
      {{.pp = 4}, 3},
      {{.tp = 2}, 2},
      {{.dp = 2}, 2},
      {{.dp = 2, .zero = 1}, 2},
      {{.pp = 2, .dp = 2, .zero = 2}, 4},
      {{.dp = 2, .zero = 3}, 2},
  }));
  TinyRun tiny = elastic_run(layout);
  tiny.shared = true;
  const auto [own, kind] = GENERATE(table<int, std::string>({{0, "exit"}, {0, "exit-in-update"}, {1, "exit"}}));
  INFO(to_string(tiny) << " in " << processes << " processes, " << kind << " beside process " << own);
  const RunRecord expected = undisturbed(tiny);
  check_takeover({.processes = processes, .own = own, .kind = kind}, tiny, expected);
}

TEST_CASE("a run survives several losses one after the other", "[takeover][processes]") {
  struct Losses {
    Layout layout;
    int first, second;  // processes
  };
  // In the second layout each state is in one process.
  const auto losses = GENERATE(Losses{{.pp = 2, .dp = 2}, 3, 1}, Losses{{.pp = 4}, 2, 3});
  TinyRun tiny = elastic_run(losses.layout);
  tiny.shared = GENERATE(false, true);
  INFO(to_string(tiny));
  const RunRecord expected = undisturbed(tiny);
  Followers followers(4, tiny);
  std::vector<Takeover> takeovers;
  int step = 0;
  const auto killing = [&](Trainer& trainer) {
    ++step;
    if (step == 2) followers.signal(losses.first, SIGKILL);
    if (step == 4) followers.signal(losses.second, SIGKILL);
    return counting(takeovers)(trainer);
  };
  CHECK((run(followers.job(), takeover_steps, killing) == expected));
  CHECK(takeovers.size() == 2);
}

TEST_CASE("the next process leads the run when process 0 is lost", "[takeover][processes]") {
  const auto [layout, processes] = GENERATE(table<Layout, int>({
      {{.dp = 2}, 2},
      {{.pp = 2}, 2},
      {{.pp = 2, .dp = 2}, 4},
      {{.tp = 2, .dp = 2, .zero = 1}, 4},
  }));
  TinyRun tiny = elastic_run(layout);
  tiny.precision = GENERATE(0, 2);
  INFO(to_string(tiny) << " in " << processes << " processes");
  const RunRecord expected = undisturbed(tiny);
  Followers followers(processes, tiny, {"TEST_FAULT=0:3:exit", "TEST_STEPS=" + std::to_string(takeover_steps)}, 1);
  std::vector<Takeover> takeovers;
  const RunRecord rest = run(followers.job(), takeover_steps, counting(takeovers));
  CHECK(ends_as(rest, expected));
  REQUIRE(takeovers.size() == 1);
  check_step_before(takeovers.front(), 3);
  CHECK(std::ssize(rest.loss) == takeover_steps - takeovers.front().step);
  CHECK(takeovers.front().taken.front().rank == 0);
}

TEST_CASE("a run survives the loss of the process that gathers the others after process 0", "[takeover][processes]") {
  const TinyRun tiny = elastic_run({.pp = 2, .dp = 2});
  const RunRecord expected = undisturbed(tiny);
  Followers followers(4, tiny, {"TEST_FAULT=0:3:exit", "TEST_STEPS=" + std::to_string(takeover_steps)}, 2);
  const auto job = followers.job();
  std::thread killer([&] {
    test::wait_until([&] { return followers.has_ended(0); });
    followers.signal(1, SIGKILL);
  });
  std::vector<Takeover> takeovers;
  CHECK(ends_as(run(job, takeover_steps, counting(takeovers)), expected));
  killer.join();
  CHECK(takeovers.back().processes == 2);
}

TEST_CASE("a process that ends between the updates of two stages loses no step", "[takeover][processes]") {
  const auto [layout, processes] = GENERATE(table<Layout, int>({
      {{.pp = 2, .dp = 2}, 4},
      {{.pp = 2}, 2},
      {{.dp = 2, .zero = 3}, 2},
  }));
  const TinyRun tiny = elastic_run(layout);
  INFO(to_string(tiny) << " in " << processes << " processes");
  const RunRecord expected = undisturbed(tiny);
  Followers followers(processes, tiny, {"TEST_FAULT=1:3:exit-in-update"});
  std::vector<Takeover> takeovers;
  CHECK((run(followers.job(), takeover_steps, counting(takeovers)) == expected));
  CHECK(takeovers.size() == 1);
}

TEST_CASE("the rest of a run takes over states that are outside of the device", "[takeover][processes]") {
  const auto [layout, processes] = GENERATE(table<Layout, int>({
      {{.dp = 2, .offload = true}, 2},
      {{.pp = 2, .offload = true, .parameters = true, .gradients = true}, 2},
      {{.dp = 2, .zero = 1, .offload = true, .parameters = true}, 2},
      {{.pp = 2, .dp = 2, .zero = 3, .offload = true, .parameters = true}, 4},
  }));
  TinyRun tiny = elastic_run(layout);
  const auto [precision, kind] = GENERATE(table<int, std::string>({{0, "exit"}, {1, "exit-in-update"}}));
  tiny.precision = precision;
  INFO(to_string(tiny) << " in " << processes << " processes, " << kind);
  const RunRecord expected = undisturbed(tiny);
  Followers followers(processes, tiny, {"TEST_FAULT=1:3:" + kind});
  std::vector<Takeover> takeovers;
  CHECK((run(followers.job(), takeover_steps, counting(takeovers)) == expected));
  REQUIRE(takeovers.size() == 1);
  check_step_before(takeovers.front(), 3);
}

TEST_CASE("the rest of a run takes over while stages have begun the next step before the verdict",
          "[takeover][post-validation][processes]") {
  const auto [layout, processes] = GENERATE(table<Layout, int>({
      {{.pp = 4, .schedule = "zb-h2"}, 3},
      {{.pp = 2, .dp = 2, .schedule = "1f1b"}, 4},
      {{.pp = 2, .tp = 2, .schedule = "zb-v", .chunks = 2}, 2},
  }));
  TinyRun tiny = elastic_run(layout);
  tiny.microbatches = 5;
  tiny.post_validation = true;
  tiny.clip = GENERATE(1e-3, 1e3);  // every step is clipped, or none is
  INFO(to_string(tiny) << " in " << processes << " processes, clip " << tiny.clip);
  const RunRecord expected = undisturbed(tiny);
  const auto [own, kind] = GENERATE(table<int, std::string>({{0, "exit"}, {0, "exit-in-update"}, {1, "exit"}}));
  check_takeover({.processes = processes, .own = own, .kind = kind}, tiny, expected);
}

TEST_CASE("a spare process takes over before processes that have ranks", "[takeover][processes]") {
  const auto [layout, processes] =
      GENERATE(table<Layout, int>({{{.pp = 2}, 3}, {{.dp = 2}, 3}, {{.pp = 2, .dp = 2, .zero = 1}, 5}}));
  TinyRun tiny = elastic_run(layout);
  tiny.spares = 1;
  tiny.shared = GENERATE(false, true);
  INFO(to_string(tiny) << " in " << processes << " processes");
  const RunRecord expected = undisturbed(tiny);
  Followers followers(processes, tiny, {"TEST_FAULT=1:3:exit"});
  std::vector<Takeover> takeovers;
  CHECK((run(followers.job(), takeover_steps, counting(takeovers)) == expected));
  REQUIRE(takeovers.size() == 1);
  REQUIRE(takeovers.front().taken.size() == 1);
  CHECK(takeovers.front().taken.front().rank == 1);
  CHECK(takeovers.front().taken.front().process == processes - 2);
}

TEST_CASE("a stopped process 0 is left out", "[takeover][processes]") {
  const TinyRun tiny = elastic_run({.pp = 2});
  const RunRecord expected = undisturbed(tiny);
  Followers followers(2, tiny, {"TEST_FAULT=0:3:stop", "TEST_STEPS=" + std::to_string(takeover_steps)}, 1);
  std::vector<Takeover> takeovers;
  CHECK(ends_as(run(followers.job(), takeover_steps, counting(takeovers)), expected));
  CHECK(takeovers.size() == 1);
}

TEST_CASE("a stopped process is left out, and changes nothing when it wakes up", "[takeover][processes]") {
  TinyRun tiny = elastic_run({.pp = 2, .dp = 2});
  tiny.shared = GENERATE(false, true);
  const RunRecord expected = undisturbed(tiny);
  Followers followers(4, tiny);
  std::vector<Takeover> takeovers;
  int step = 0;
  const auto stopping = [&](Trainer& trainer) {
    ++step;
    if (step == 2) followers.signal(2, SIGSTOP);
    if (step == 4) followers.signal(2, SIGCONT);
    return counting(takeovers)(trainer);
  };
  CHECK((run(followers.job(), takeover_steps, stopping) == expected));
  CHECK(takeovers.size() == 1);
  const auto ends = followers.wait();
  CHECK(ends[0] == "");
  CHECK(ends[1] != "");
  CHECK(ends[2] == "");
}

TEST_CASE("a run is not elastic where nobody could take over", "[takeover]") {
  CHECK_THAT(refusal(job_of(elastic_run({.pp = 2}))), Catch::Contains("one process runs all ranks"));
}
