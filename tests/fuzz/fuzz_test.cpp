// The fuzzer itself, and a minute of it over every parser. ./dev bench fuzz runs it for any length of time.
#include "bench/fuzz/fuzzer.hpp"
#include "bench/fuzz/workers.hpp"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <new>
#include <stdexcept>

#include "catch.hpp"
#include "core/error.hpp"
#include "temp_folder.hpp"

using namespace pipetrain;
using namespace pipetrain::fuzz;

namespace {

// Returns the findings about a parser of the test in 50 executions.
Outcome outcome_of(std::function<void(std::string_view)> run) {
  return fuzz::fuzz({"own", {"{\"a\": 1}"}, {}, std::move(run), nullptr}, 1, 0, {.executions = 50});
}

}  // namespace

TEST_CASE("inputs depend on seed, target and number only, and change the seeds") {
  const TempFolder folder;
  const std::vector<Target> targets = all_targets(folder.path());
  for (const Target& target : targets) {
    CAPTURE(target.name);
    std::size_t changed = 0;
    for (std::uint64_t i = 0; i < 20; ++i) {
      const std::string input = input_of(target, 7, i);
      CHECK(input == input_of(target, 7, i));
      changed += std::find(target.seeds.begin(), target.seeds.end(), input) == target.seeds.end() ? 1 : 0;
    }
    CHECK(changed > 10);
    CHECK(input_of(target, 7, 1) != input_of(target, 8, 1));
  }
  CHECK(input_of(targets.at(3), 7, 1) != input_of(targets.at(4), 7, 1));
}

TEST_CASE("every parser takes the valid inputs that the fuzzer begins with") {
  const TempFolder folder;
  for (const Target& target : all_targets(folder.path())) {
    if (target.finish) continue;  // they become valid only then
    for (const std::string& seed : target.seeds) {
      CAPTURE(target.name, seed);
      if (target.name != "index") CHECK_NOTHROW(target.run(seed));
      CHECK_FALSE(fault_of(target, seed));
    }
  }
}

TEST_CASE("the fuzzer finds crashes, other exceptions, several lines, hangs and too much memory") {
  CHECK(outcome_of([](std::string_view) {}).findings.empty());
  CHECK(outcome_of([](std::string_view) {}).accepted == 50);
  CHECK(outcome_of([](std::string_view) { throw Error(ErrorKind::input, "wrong"); }).findings.empty());

  const auto first = [](std::function<void(std::string_view)> run) { return outcome_of(std::move(run)).findings.at(0); };
  CHECK(first([](std::string_view) { throw Error(ErrorKind::internal, "a bug"); }).what == "internal error: a bug");
  CHECK(first([](std::string_view) { throw std::bad_alloc(); }).what.find("another kind") != std::string::npos);
  CHECK(first([](std::string_view) { throw std::out_of_range("at"); }).what.find(": at") != std::string::npos);
  CHECK(first([](std::string_view) { throw 1; }).what.find("no std::exception") != std::string::npos);
  CHECK(first([](std::string_view) { ::_exit(3); }).what.find("ended with status 3") != std::string::npos);
  CHECK(first([](std::string_view) { ::raise(SIGKILL); }).what == "ended by signal 9");
  CHECK(first([](std::string_view input) {
          const std::vector<char> bytes(std::size_t{65} << 20);
          if (bytes[input.size()] != 0) throw 1;
        }).what.find("bytes of memory, more than") != std::string::npos);
  CHECK(first([](std::string_view) {
          for (std::vector<std::string> all;;) all.emplace_back(std::size_t{1} << 20, 'x');
        }).what == "took more than 1 GiB of memory");

  const Outcome some = outcome_of([](std::string_view input) {
    if (input.find('[') != std::string_view::npos) throw std::logic_error("a bracket");
  });
  REQUIRE_FALSE(some.findings.empty());
  for (const Finding& finding : some.findings) {
    CHECK(finding.input.find('[') != std::string::npos);
    const Target own{"own", {"{\"a\": 1}"}, {}, nullptr, nullptr};
    CHECK(input_of(own, 1, finding.execution) == finding.input);  // its number gives the same input again
  }
}

TEST_CASE("processes share the executions of a parser without gaps") {
  std::uint64_t next = 5;
  for (int worker = 0; worker < 7; ++worker) {
    const Share share = share_of(5, {.executions = 31}, worker, 7);
    CHECK(share.first == next);
    next += share.limits.executions;
  }
  CHECK(next == 5 + 31);
  CHECK(share_of(0, {.seconds = 1}, 3, 7).first == std::uint64_t{3} << 40);
}

TEST_CASE("several processes accept as many inputs as one, and none of them fails") {
  const auto accepted = [](int workers) {
    const WorkersOutcome outcome =
        fuzz_over({.parser = "template", .seed = 3, .limits = {.executions = 200}, .workers = workers},
                  [](const Target&, const Finding&) {});
    CHECK(outcome.executions == 200);
    CHECK(outcome.failed == 0);
    CHECK(outcome.findings == 0);
    return outcome.accepted;
  };
  const std::uint64_t one = accepted(1);
  CHECK(one > 0);
  CHECK(accepted(3) == one);
  CHECK(accepted(300) == one);
  CHECK(fuzz_over({.parser = "none", .limits = {.executions = 2}, .workers = 2}, [](const Target&, const Finding&) {}).failed ==
        2);
}

TEST_CASE("no parser does worse than an error of one line", "[slow]") {
  constexpr double seconds = 60;
  const TempFolder folder;
  const std::vector<Target> targets = all_targets(folder.path());
  for (const Target& target : targets) {
    const Outcome outcome = fuzz::fuzz(target, 1, 0, {.seconds = seconds / static_cast<double>(targets.size())});
    CAPTURE(target.name);
    CHECK(outcome.executions > 0);
    for (const Finding& finding : outcome.findings) {
      CAPTURE(finding.execution, finding.input.substr(0, 1000));
      CHECK(finding.what.empty());
    }
  }
}
