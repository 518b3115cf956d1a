#include "apps/launch/launch_cause.hpp"

#include <csignal>
#include <string>
#include <vector>

#include "apps/output/launch_report.hpp"
#include "apps/output/process_label.hpp"
#include "catch.hpp"

using namespace pipetrain;
using Catch::Matchers::StartsWith;

namespace {

ProcessEnd ended(int process, int status) { return {.process = process, .status = status}; }
ProcessEnd told_end(int process, int status, ErrorKind kind, const std::string& line) {
  ProcessEnd end = ended(process, status);
  end.failure = kind;
  end.line = line;
  return end;
}
ProcessEnd killed(int process, int signal) { return {.process = process, .signal = signal}; }

std::optional<LaunchCause> cause_of_ends(const std::vector<ProcessEnd>& ends, int passed_on = 0) {
  return first_cause(ends, passed_on, [](int process) { return "process " + std::to_string(process); });
}

}  // namespace

TEST_CASE("processes that ended well have no cause") {
  CHECK(!cause_of_ends({}));
  CHECK(!cause_of_ends({ended(1, 0), ended(0, 0)}));
  ProcessEnd behind = killed(1, SIGKILL);
  behind.ended_by_launch = true;
  CHECK(!cause_of_ends({ended(0, 0), behind}));
}

TEST_CASE("an elastic run that went on without lost processes ends as the others, but not where a member failed by itself") {
  const auto ends_run = [](const ProcessEnd& end) { return end.signal == 0 && end.status == 0; };
  const auto cause_after = [&](std::vector<ProcessEnd> ends) {
    forget_lost(ends, ends_run);
    return cause_of_ends(ends);
  };
  ProcessEnd failed = told_end(0, 2, ErrorKind::input, "the disk is full");
  CHECK(!cause_after({killed(0, SIGKILL), ended(1, 0)}));
  CHECK(!cause_after({told_end(0, 1, ErrorKind::peer_lost, "the others have gone on"), ended(1, 0)}));
  CHECK(!cause_after({failed, ended(1, 0)}));  // it could not join
  CHECK(cause_after({killed(0, SIGKILL), ended(1, 1)})->kind == ErrorKind::peer_lost);
  failed.member = true;
  for (const auto& ends :
       {std::vector{failed, ended(1, 0)}, {ended(1, 0), failed}, {killed(2, SIGKILL), ended(1, 0), failed}}) {
    const auto found = cause_after(ends);
    REQUIRE(found);
    CHECK(found->status == 2);
    CHECK(found->line == "the disk is full");
  }
}

TEST_CASE("a process that a signal ended is the cause, whatever the others say of it") {
  const auto lost = [](int process) { return told_end(process, 1, ErrorKind::peer_lost, "process 2 went away"); };
  const auto found = cause_of_ends({killed(2, SIGKILL), lost(1), lost(0)});
  REQUIRE(found);
  CHECK(found->status == 1);
  CHECK(found->kind == ErrorKind::peer_lost);
  CHECK_THAT(found->line, StartsWith("process 2 was ended by SIGKILL"));
  CHECK_THAT(cause_of_ends({lost(1), killed(0, SIGSEGV)})->line, StartsWith("process 0 was ended by SIGSEGV; this is a bug"));
}

TEST_CASE("a process that a signal asked to stop before it could answer stops the run, which is not started again") {
  for (const int signal : {SIGHUP, SIGINT, SIGTERM}) {
    const auto found = cause_of_ends({killed(1, signal), told_end(0, 1, ErrorKind::peer_lost, "process 1 went away")});
    REQUIRE(found);
    CHECK(found->status == 128 + signal);
    CHECK(found->kind == ErrorKind::aborted);
    CHECK_THAT(found->line, StartsWith("process 1 was ended by SIG"));
  }
}

TEST_CASE("a stopped process is the cause, though launch has to end it") {
  ProcessEnd stopped = killed(1, SIGSTOP);
  stopped.stopped = true;
  const auto found = cause_of_ends({told_end(0, 1, ErrorKind::peer_lost, "process 1 is silent"), stopped});
  REQUIRE(found);
  CHECK_THAT(found->line, StartsWith("process 1 was stopped by SIGSTOP"));
  CHECK(found->restart_helps);
  CHECK(found->line.find("--restart") == std::string::npos);  // launch adds it if it is not on
}

TEST_CASE("process 0's cause takes precedence over what others report") {
  const auto found =
      cause_of_ends({told_end(2, 1, ErrorKind::out_of_memory, "mine"), told_end(1, 1, ErrorKind::peer_lost, "lost"),
                     told_end(0, 1, ErrorKind::out_of_memory, "rank 2: no memory")});
  REQUIRE(found);
  CHECK(found->line == "rank 2: no memory");
  CHECK(found->kind == ErrorKind::out_of_memory);
  // Unless it only reports that another process went away.
  CHECK(cause_of_ends({told_end(2, 2, ErrorKind::input, "no such file"), told_end(0, 1, ErrorKind::peer_lost, "lost")})->line ==
        "no such file");
  CHECK(
      cause_of_ends({told_end(2, 2, ErrorKind::input, "no such file"), told_end(0, 1, ErrorKind::peer_lost, "lost")})->status ==
      2);
}

TEST_CASE("a process that ends without a word is the cause of what the others say") {
  const auto found = cause_of_ends({ended(1, 3), told_end(0, 1, ErrorKind::peer_lost, "lost")});
  REQUIRE(found);
  CHECK(found->line == "process 1 ended with status 3");
  CHECK(found->status == 3);
}

TEST_CASE("if all processes of this host report the loss of another, that loss is reported") {
  const auto found = cause_of_ends(
      {told_end(3, 1, ErrorKind::peer_lost, "process 0 on host b"), told_end(2, 1, ErrorKind::peer_lost, "the same")});
  REQUIRE(found);
  CHECK(found->line == "process 0 on host b");
}

TEST_CASE("a run that signals stopped needs no error") {
  const auto found = cause_of_ends({ended(1, 143), ended(0, 143)});
  REQUIRE(found);
  CHECK(found->status == 143);
  CHECK(found->line.empty());
  CHECK(found->kind == ErrorKind::aborted);
}

TEST_CASE("processes that a signal to the launch ended have not failed, nor have those who miss them") {
  const auto lost = told_end(0, 1, ErrorKind::peer_lost, "process 1 went away");
  for (const auto& ends : {std::vector{killed(1, SIGTERM), killed(0, SIGTERM)},
                           {killed(1, SIGTERM), lost},
                           {lost, killed(1, SIGINT)},
                           {killed(1, SIGTERM), ended(0, 0)}}) {
    const auto found = cause_of_ends(ends, SIGTERM);
    REQUIRE(found);
    CHECK(found->status == 143);
    CHECK(found->kind == ErrorKind::aborted);
    CHECK(found->line.empty());
    CHECK(found->unsaid);
  }
  CHECK_FALSE(cause_of_ends({killed(1, SIGTERM), ended(0, 143)}, SIGTERM)->unsaid);
  CHECK_THAT(cause_of_ends({killed(1, SIGKILL), killed(0, SIGTERM)}, SIGTERM)->line,
             StartsWith("process 1 was ended by SIGKILL"));
  CHECK(cause_of_ends({killed(1, SIGTERM), ended(0, 3)}, SIGTERM)->line == "process 0 ended with status 3");
  CHECK(cause_of_ends({killed(1, SIGTERM), told_end(0, 2, ErrorKind::input, "no such file")}, SIGTERM)->line == "no such file");
}

TEST_CASE("reports of a process are read as they were written, and nothing else") {
  CHECK(!parse_launch_report("joined")->failure);
  const auto report = parse_launch_report("failed 1 rank 2: no memory");
  REQUIRE(report);
  CHECK(report->failure == ErrorKind::out_of_memory);
  CHECK(report->line == "rank 2: no memory");
  for (const char* wrong : {"", "x", "failed", "failed ", "failed 1", "failed 99 x", "failed -1 x", "failed x y", "joined "}) {
    INFO(wrong);
    CHECK(!parse_launch_report(wrong));
  }
}

TEST_CASE("processes are called by their ranks, stages and replicas") {
  const ProcessLabels pipeline({.pp = 4}, 4);
  CHECK(pipeline.ranks(2) == "rank 2");
  CHECK(pipeline.label(2) == "rank 2, stage 2");
  CHECK(pipeline.name(2, "b") == "process 2 (rank 2, stage 2) on host b");
  const ProcessLabels both({.dp = 2, .pp = 2, .tp = 2}, 2);
  CHECK(both.label(0) == "ranks 0-3, stages 0-1, replica 0");
  CHECK(both.label(1) == "ranks 4-7, stages 0-1, replica 1");
  const ProcessLabels uneven({.pp = 3}, 2);
  CHECK(uneven.label(0) == "ranks 0-1, stages 0-1");
  CHECK(uneven.label(1) == "rank 2, stage 2");
  CHECK(ProcessLabels({.tp = 2}, 2).label(1) == "rank 1");
}
