// If a part of a run over several processes fails, all of them end with that cause.
#include <thread>

#include "actors/engine/remote/codec.hpp"
#include "catch.hpp"
#include "core/error.hpp"
#include "model/weights/weights.hpp"
#include "thread_processes.hpp"
#include "tiny_run.hpp"

using namespace pipetrain;
using namespace pipetrain::test;

namespace {

using Lines = std::vector<std::string>;

const TinyRun two_stages{.layout = {.pp = 2}};
const TinyRun four_ranks{.layout = {.pp = 2, .dp = 2}};

JobOfProcess with_fault(const TinyRun& tiny, Fault fault) {
  return [tiny, fault](int) {
    TrainJob job = job_of(tiny);
    job.fault = fault;
    return job;
  };
}

void three_steps(Trainer& trainer) {
  for (int step = 0; step < 3; ++step) trainer.step();
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

// Checks that every process ends with the same first line, and that nothing is left running.
void check_all_end_with(const Lines& failures, const std::string& part) {
  for (std::size_t process = 0; process < failures.size(); ++process) {
    INFO("process " << process << ": " << failures[process]);
    CHECK(failures[process].find(part) != std::string::npos);
    CHECK(failures[process].find("not everything stopped") == std::string::npos);
    CHECK(first_line(failures[process]) == first_line(failures[0]));
  }
}

}  // namespace

TEST_CASE("a failure in any process ends all with its cause", "[processes]") {
  for (const int rank : {0, 1, 3}) {
    INFO("rank " << rank);
    const std::string place = "rank " + std::to_string(rank) + " (stage " + std::to_string(rank % 2) + ", tp rank 0, replica " +
                              std::to_string(rank / 2) + ") in step 2: ";
    check_all_end_with(lead(MemoryHub::make(4), with_fault(four_ranks, {rank, 2, FaultKind::raise}), three_steps),
                       place + "a fault was asked for");
    check_all_end_with(lead(MemoryHub::make(2), with_fault(four_ranks, {rank, 2, FaultKind::out_of_memory}), three_steps),
                       place + "cpu:");
  }
  check_all_end_with(lead(MemoryHub::make(2), with_fault(two_stages, {1, 2, FaultKind::nan}), three_steps), "of step 2 is NaN");
}

TEST_CASE("the error says for every process of the step which stage waited for which", "[processes]") {
  const Lines failures = lead(MemoryHub::make(2), with_fault(two_stages, {1, 2, FaultKind::raise}), three_steps);
  INFO(failures[0]);
  CHECK(failures[0].find("\nstage 0: ") != std::string::npos);
  CHECK(failures[0].find("\nstage 1: ") != std::string::npos);
  CHECK(failures[1].find("\nstage 1: ") != std::string::npos);
}

TEST_CASE("a hang in another process is noticed", "[processes]") {
  check_all_end_with(lead(
                         MemoryHub::make(2),
                         [](int) {
                           TrainJob job = job_of(two_stages);
                           job.fault = Fault{1, 2, FaultKind::hang};
                           job.stall = std::chrono::milliseconds(500);
                           return job;
                         },
                         three_steps),
                     "no action completed");
}

TEST_CASE("a process that is lost ends the others, which name it", "[processes]") {
  for (const int lost : {1, 3}) {
    const auto hub = MemoryHub::make(4);
    const Lines failures = lead(
        hub, [](int) { return job_of(four_ranks); },
        [&](Trainer& trainer) {
          trainer.step();
          hub->kill(lost, "its connection was closed");
          while (true) trainer.step();
        });
    const std::string number = std::to_string(lost);
    for (int process = 0; process < 4; ++process) {
      INFO("process " << process << ": " << failures[static_cast<std::size_t>(process)]);
      const std::string expected = process == lost ? "process 0 (part 0) on host host0: its connection was closed"
                                                   : "process " + number + " (part " + number + ") on host host" + number +
                                                         ": its connection was closed";
      CHECK(first_line(failures[static_cast<std::size_t>(process)]) == expected);
    }
    CHECK(failures[0].find(": its process is gone") != std::string::npos);
  }
}

TEST_CASE("without process 0 the others end, and name it", "[processes]") {
  const auto hub = MemoryHub::make(3);
  const Lines failures = lead(
      hub, [](int) { return job_of({.layers = 3, .layout = {.pp = 3}}); },
      [&](Trainer& trainer) {
        trainer.step();
        hub->kill(0, "no sign of life");
        trainer.abort(std::make_exception_ptr(Error(ErrorKind::aborted, "killed")));
        trainer.step();
      });
  for (const int process : {1, 2})
    CHECK(first_line(failures[static_cast<std::size_t>(process)]) == "process 0 (part 0) on host host0: no sign of life");
}

TEST_CASE("abort in any process ends all", "[processes]") {
  for (const int aborting : {0, 1}) {
    const auto failures = in_processes(
        MemoryHub::make(2), [](int) { return job_of(two_stages); },
        [&](int process, TrainJob job) {
          Trainer trainer(std::move(job));
          if (process == aborting) trainer.abort(std::make_exception_ptr(Error(ErrorKind::aborted, "a second signal")));
          if (process > 0) return trainer.follow();
          while (true) trainer.step();
        });
    check_all_end_with(failures, "a second signal");
  }
}

TEST_CASE("a process that leaves before the end is missed", "[processes]") {
  const auto failures = in_processes(
      MemoryHub::make(2), [](int) { return job_of(two_stages); },
      [&](int process, TrainJob job) {
        Trainer trainer(std::move(job));
        while (process == 0) trainer.step();
      });
  CHECK(first_line(failures[0]) == "process 1 (part 1) on host host1: it left the run before its end");
}

TEST_CASE("a process that cannot build its ranks ends all with its cause", "[processes]") {
  class Broken final : public WeightSource {
   public:
    void load(const Parameter&, float*) const override {
      throw Error(ErrorKind::input, "model.safetensors: this file is broken");
    }
  };
  for (const int broken : {0, 1, 2}) {
    INFO("process " << broken);
    const Lines failures = lead(
        MemoryHub::make(3),
        [&](int process) {
          TrainJob job = job_of({.layers = 3, .layout = {.pp = 3}});
          if (process == broken) job.initial.weights = std::make_shared<Broken>();
          return job;
        },
        three_steps);
    const std::string number = std::to_string(broken);
    for (int process = 0; process < 3; ++process) {
      const std::string place =
          process == broken ? "" : "process " + number + " (part " + number + ") on host host" + number + ": ";
      CHECK(failures[static_cast<std::size_t>(process)] == place + "model.safetensors: this file is broken");
    }
  }
}

TEST_CASE("a process that is lost while the run is built ends the others", "[processes]") {
  const auto hub = MemoryHub::make(2);
  const Lines failures = in_processes(
      hub, [](int) { return job_of(two_stages); },
      [&](int process, TrainJob job) {
        if (process == 1) return hub->kill(1, "its connection was closed");
        Trainer trainer(std::move(job));
      });
  CHECK(failures[0] == "process 1 (part 1) on host host1: its connection was closed");
}

TEST_CASE("processes with other data or another model are detected before anything is built", "[processes]") {
  const auto difference = [](const std::function<void(TrainJob&)>& change) {
    const Lines failures = lead(
        MemoryHub::make(2),
        [&](int process) {
          TrainJob job = job_of(two_stages);
          if (process == 1) change(job);
          return job;
        },
        three_steps);
    CHECK(failures[0] == failures[1]);
    return failures[0];
  };
  const std::string who = "process 1 (part 1) on host host1 has another ",
                    end = " than process 0: give all processes the same files";
  CHECK(difference([](TrainJob& job) { job.config.rope.theta = 5; }) == who + "model" + end);
  CHECK(difference([](TrainJob& job) { job.dataset = job_of({.sequence = 9}).dataset; }) == who + "data" + end);
  CHECK(difference([](TrainJob& job) { job.steps_done = 3; }) == who + "step to continue from" + end);
}

TEST_CASE("a broken connection that a stage meets is explained by the process that was lost", "[processes]") {
  // A group over processes fails before any process is told of the loss.
  const auto hub = MemoryHub::make(3);
  const Lines failures = lead(
      hub, [](int) { return job_of({.layers = 3, .layout = {.pp = 3}}); },
      [&](Trainer& trainer) {
        trainer.step();
        Failure met{ErrorKind::peer_lost, "a connection broke", "stage 1"};
        hub->forge(1, 0, Channel::engine, encode({{}, Failed{met}}));
        std::thread later([&] {
          std::this_thread::sleep_for(std::chrono::milliseconds(100));  // the loss is heard of later than the failure
          hub->kill(2, "no sign of life");
        });
        try {
          while (true) trainer.step();
        } catch (...) {
          later.join();
          throw;
        }
      });
  for (const int process : {0, 1})
    CHECK(first_line(failures[static_cast<std::size_t>(process)]) == "process 2 (part 2) on host host2: no sign of life");
}
