// Text over several processes, which are threads of the test: the bits of one process, and how a run ends.
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "actors/engine/step.hpp"
#include "actors/memory_processes.hpp"
#include "actors/ranks/run_processes.hpp"
#include "catch.hpp"
#include "core/error.hpp"
#include "generation/golden_text.hpp"

namespace pipetrain {
namespace {

using namespace testing;
using test::MemoryHub;

// Process 0 does the work with its generator; the others follow. Returns the error of each, "" for none.
std::vector<std::string> in_processes(int processes, const std::function<GenerationJob(int process)>& job_of,
                                      const std::function<void(Generator&)>& lead) {
  const auto hub = MemoryHub::make(processes);
  std::vector<std::string> failures(static_cast<std::size_t>(processes));
  std::vector<std::thread> threads;
  for (int process = 0; process < processes; ++process) {
    threads.emplace_back([&, process] {
      const auto control = hub->control(process);
      try {
        GenerationJob job = job_of(process);
        job.processes = std::make_shared<RunProcesses>();
        job.processes->control = control;
        job.processes->make_transport = [hub](ControlPlane& plane, const Mesh&) { return hub->transport(plane); };
        Generator generator(job);
        process == 0 ? lead(generator) : generator.follow();
      } catch (const std::exception& error) {
        failures[static_cast<std::size_t>(process)] = error.what();
      }
      control->leave();
    });
  }
  for (auto& thread : threads) thread.join();
  return failures;
}

std::vector<Ids> answers_over(int processes, const GenerationJob& job, const std::vector<Ids>& prompts,
                              const Decoding& decoding) {
  std::vector<Ids> answers;
  const auto failures = in_processes(
      processes, [&](int) { return job; }, [&](Generator& generator) { answers = decoded(generator, prompts, decoding); });
  CHECK(failures == std::vector<std::string>(failures.size()));
  return answers;
}

struct Layout {
  int pp, tp, processes;
};
const std::vector<Layout> layouts = {{2, 1, 2}, {1, 2, 2}, {2, 2, 2}, {2, 2, 4}, {4, 1, 4}, {3, 2, 3}, {1, 4, 3}, {5, 1, 2}};

}  // namespace

TEST_CASE("text over several processes is that of one, greedy and drawn", "[processes]") {
  const auto& one = golden_texts()[0];
  const auto prompts = prompts_of(one);
  for (const auto& [pp, tp, processes] : layouts) {
    INFO("pp " << pp << " tp " << tp << " in " << processes);
    const GenerationJob job = golden_job(one, pp, tp);
    const Decoding greedy{.max_new_tokens = one.at("new_tokens")};
    CHECK(answers_over(processes, job, prompts, greedy) == answers_of(job, prompts, greedy));
    const Decoding drawn{.sampling = {.temperature = 1.5, .top_k = 50, .top_p = 0.95, .seed = 7}, .max_new_tokens = 12};
    CHECK(answers_over(processes, job, prompts, drawn) == answers_of(job, prompts, drawn));
  }
}

TEST_CASE("logits over several processes have the bits of one", "[processes]") {
  const auto& one = golden_texts()[1];
  const Ids ids = one.at("answers")[1].at("prompt");
  for (const auto& [pp, tp, processes] : layouts) {
    INFO("pp " << pp << " tp " << tp << " in " << processes);
    const GenerationJob job = golden_job(one, pp, tp);
    Generator alone(job);
    const auto expected = logits_after(alone, singly(ids));
    std::vector<float> logits;
    const auto failures = in_processes(
        processes, [&](int) { return job; }, [&](Generator& generator) { logits = logits_after(generator, singly(ids)); });
    CHECK(failures == std::vector<std::string>(failures.size()));
    CHECK(logits == expected);
  }
}

TEST_CASE("processes of different models generate nothing, and all say so", "[processes]") {
  const auto failures = in_processes(
      2, [](int process) { return golden_job(golden_texts()[static_cast<std::size_t>(process)], 2, 1); }, [](Generator&) {});
  for (const std::string& failure : failures) CHECK(failure.find("has another model than process 0") != std::string::npos);
}

TEST_CASE("an error in process 0 ends decoding in all processes, with its reason", "[processes]") {
  const auto failures = in_processes(
      2, [](int) { return golden_job(golden_texts()[0], 2, 1); },
      [](Generator& generator) { generator.abort(std::make_exception_ptr(Error(ErrorKind::numeric, "the logits are NaN"))); });
  CHECK(failures[0].empty());
  CHECK(failures[1].find("the logits are NaN") != std::string::npos);
}

TEST_CASE("impossible runs of sequences are refused") {
  const SequenceRuns runs{{0, {1, 2}, 8}, {5, {}}, {3, {9}}};
  const RunLimits limits{3, 8, 10};
  const Bytes bytes = to_bytes(runs);
  CHECK(sequence_runs(bytes, limits) == runs);
  CHECK_THROWS_AS(sequence_runs(bytes, {2, 8, 10}), Error);
  CHECK_THROWS_AS(sequence_runs(bytes, {3, 3, 10}), Error);
  CHECK_THROWS_AS(sequence_runs(bytes, {3, 8, 9}), Error);
  for (std::size_t size = 0; size < bytes.size(); ++size)
    CHECK_THROWS_AS(sequence_runs(std::span(bytes).first(size), limits), Error);
  CHECK_THROWS_AS(sequence_runs(to_bytes(SequenceRuns{{-1, {1}}}), {1, 8, 10}), Error);
  CHECK_THROWS_AS(sequence_runs(to_bytes(SequenceRuns{{std::numeric_limits<std::int64_t>::max(), {1}}}), {1, 8, 10}), Error);
  CHECK_THROWS_AS(sequence_runs(to_bytes(SequenceRuns{{0, {-1}}}), {1, 8, 10}), Error);
  for (const std::int64_t length : {-1, 2, 9})  // of a text that has three positions at least and eight at most
    CHECK_THROWS_AS(sequence_runs(to_bytes(SequenceRuns{{2, {1}, length}}), {1, 8, 10}), Error);
  CHECK_THROWS_AS(sequence_runs(to_bytes(SequenceRuns{{0, Ids(257, 1)}}), {1, 1000, 10}), Error);
}

}  // namespace pipetrain
