#include "thread_processes.hpp"

#include <thread>

#include "actors/engine/run_failed.hpp"
#include "catch.hpp"

namespace pipetrain::test {
namespace {

std::string text_of(const RunFailed& failure) {
  std::string text = failure.what();
  for (const auto& line : failure.waiting()) text += "\n" + line;
  return text + (failure.everything_stopped() ? "" : "\nnot everything stopped");
}

}  // namespace

std::vector<std::string> in_processes(const std::shared_ptr<MemoryHub>& hub, const JobOfProcess& job_of_process,
                                      const ProcessWork& work) {
  std::vector<std::string> failures(static_cast<std::size_t>(hub->processes()));
  std::vector<std::thread> threads;
  for (int process = 0; process < hub->processes(); ++process) {
    threads.emplace_back([&, process] {
      auto& failure = failures[static_cast<std::size_t>(process)];
      auto control = hub->control(process);
      try {
        TrainJob job = job_of_process(process);
        job.processes = std::make_shared<RunProcesses>();
        job.processes->control = control;
        job.processes->make_transport = [hub](ControlPlane& plane, const Mesh&) { return hub->transport(plane); };
        work(process, std::move(job));
      } catch (const RunFailed& failed) {
        failure = text_of(failed);
      } catch (const std::exception& error) {
        failure = error.what();
      }
      control->leave();
    });
  }
  for (auto& thread : threads) thread.join();
  return failures;
}

std::vector<std::string> lead(const std::shared_ptr<MemoryHub>& hub, const JobOfProcess& job,
                              const std::function<void(Trainer&)>& work) {
  return in_processes(hub, job, [&](int process, TrainJob own) {
    Trainer trainer(std::move(own));
    if (process == 0) {
      work(trainer);
    } else {
      trainer.follow();
    }
  });
}

RunRecord run_over(int processes, const std::function<TrainJob()>& make_job) {
  RunRecord record;
  const auto failures = in_processes(
      MemoryHub::make(processes), [&](int) { return make_job(); },
      [&](int process, TrainJob job) {
        if (process == 0) {
          record = run(std::move(job), 2);
        } else {
          Trainer(std::move(job)).follow();
        }
      });
  for (int process = 0; process < processes; ++process) {
    INFO("process " << process);
    CHECK(failures[static_cast<std::size_t>(process)] == "");
  }
  return record;
}

}  // namespace pipetrain::test
