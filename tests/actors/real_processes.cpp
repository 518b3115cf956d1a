#include "real_processes.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "actors/ranks/run_processes.hpp"
#include "catch.hpp"
#include "comm/control/held_port.hpp"
#include "comm/successive_planes.hpp"
#include "core/mesh.hpp"
#include "wait_until.hpp"

namespace pipetrain::test {
namespace {

std::string to_words(const TinyRun& tiny) {
  const Layout& layout = tiny.layout;
  return fmt::format("{} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {}",
                     static_cast<int>(tiny.family), int{tiny.tied}, tiny.layers, tiny.sequence, tiny.microbatches, layout.pp,
                     layout.tp, layout.dp, layout.microbatch, layout.schedule, layout.chunks, static_cast<int>(layout.order),
                     int{layout.sequence_parallel}, static_cast<int>(layout.recompute), layout.zero, tiny.precision, layout.cp,
                     layout.ep, int{layout.offload}, int{layout.parameters}, int{layout.gradients}, tiny.dropout,
                     int{tiny.isolated}, int{tiny.elastic}, int{tiny.shared}, tiny.spares, int{tiny.post_validation}, tiny.clip,
                     tiny.golden);
}

TinyRun from_words(const std::string& words) {
  std::istringstream in(words);
  TinyRun tiny;
  int family = 0, order = 0, recompute = 0;
  in >> family >> tiny.tied >> tiny.layers >> tiny.sequence >> tiny.microbatches >> tiny.layout.pp >> tiny.layout.tp >>
      tiny.layout.dp >> tiny.layout.microbatch >> tiny.layout.schedule >> tiny.layout.chunks >> order >>
      tiny.layout.sequence_parallel >> recompute >> tiny.layout.zero >> tiny.precision >> tiny.layout.cp >> tiny.layout.ep >>
      tiny.layout.offload >> tiny.layout.parameters >> tiny.layout.gradients >> tiny.dropout >> tiny.isolated >> tiny.elastic >>
      tiny.shared >> tiny.spares >> tiny.post_validation >> tiny.clip >> tiny.golden;
  tiny.family = static_cast<Family>(family);
  tiny.layout.order = static_cast<schedules::Order>(order);
  tiny.layout.recompute = static_cast<Recompute>(recompute);
  return tiny;
}

TrainJob joined_job(int process, int processes, std::uint16_t port, const TinyRun& tiny) {
  Rendezvous rendezvous;
  rendezvous.process = process;
  rendezvous.processes = processes;
  rendezvous.port = port;
  rendezvous.token = "a token";
  rendezvous.timeout = std::chrono::seconds(60);
  rendezvous.label = fmt::format("part {}", process);
  TrainJob job = job_of(tiny);
  job.processes = std::make_shared<RunProcesses>();
  job.processes->control = join_processes(rendezvous);
  if (tiny.elastic)
    job.processes->planes =
        std::make_shared<control::SuccessivePlanes>(rendezvous, control::Settings{}, job.processes->control);
  if (tiny.spares > 0)
    for (const RankLocation& place : deal_ranks(Mesh(job.mesh_shape()).size(), processes - tiny.spares))
      job.processes->process_of.push_back(place.process);
  if (const char* fault = std::getenv("TEST_FAULT")) job.fault = parse_fault(fault);
  if (std::getenv("TEST_ON_GPU") != nullptr) use_own_gpu(job, std::getenv("TEST_ON_GPU"));
  return job;
}

}  // namespace

void use_own_gpu(TrainJob& job, const std::string& transport) {
  job.devices.kind = DeviceKind::cuda;
  job.processes->transport = transport == "ipc" ? TransportKind::ipc : TransportKind::nccl;
  const int ranks = static_cast<int>(job.batch.dp) * job.layout.pp * job.layout.cp * job.layout.tp;
  for (const RankLocation& place : deal_ranks(ranks, job.processes->control->processes())) {
    if (place.process == job.processes->control->process()) job.devices.gpus.push_back(place.process);
  }
}

TEST_CASE("a process of another one's run", "[.follower]") {
  const char* process = std::getenv("TEST_PROCESS");
  if (process == nullptr) return;
  const TinyRun tiny = from_words(std::getenv("TEST_RUN"));
  TrainJob job = joined_job(std::atoi(process), std::atoi(std::getenv("TEST_PROCESSES")),
                            static_cast<std::uint16_t>(std::atoi(std::getenv("TEST_PORT"))), tiny);
  const auto processes = job.processes;  // whose control plane changes in an elastic run
  std::string cause;
  try {
    Trainer trainer(std::move(job));
    const char* steps = std::getenv("TEST_STEPS");
    const bool leads = std::string_view(process) == "0" || trainer.follow();
    while (leads && steps != nullptr && trainer.steps_done() < std::atoi(steps))
      trainer.step(trainer.steps_done() + 1 < std::atoi(steps));
  } catch (const std::exception& error) {
    cause = error.what();
  }
  processes->control->leave();
  std::ofstream(std::getenv("TEST_LOG")) << (cause.empty() ? "done" : cause);
}

Followers::Followers(int processes, const TinyRun& tiny, const std::vector<std::string>& variables, int own)
    : processes_(processes), own_(own), tiny_(tiny), port_(HeldPort(0).port()) {
  for (int process = 0; process < processes; ++process) {
    if (process == own) {
      children_.push_back(0);
      logs_.emplace_back();
      continue;
    }
    logs_.push_back(fmt::format("/tmp/pipetrain-test-{}-{}.log", ::getpid(), process));
    std::vector<std::string> own = variables;
    own.push_back(fmt::format("TEST_PROCESS={}", process));
    own.push_back(fmt::format("TEST_PROCESSES={}", processes));
    own.push_back(fmt::format("TEST_PORT={}", port_));
    own.push_back("TEST_RUN=" + to_words(tiny));
    own.push_back("TEST_LOG=" + logs_.back());
    std::vector<char*> environment;
    for (auto& variable : own) environment.push_back(variable.data());
    for (char** variable = environ; *variable != nullptr; ++variable) {
      if (std::string_view(*variable).rfind("TEST_", 0) != 0) environment.push_back(*variable);
    }
    environment.push_back(nullptr);
    std::string program = "/proc/self/exe", filter = "[.follower]";
    char* arguments[] = {program.data(), filter.data(), nullptr};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", 1 /* O_WRONLY */, 0);
    pid_t child = 0;
    REQUIRE(::posix_spawn(&child, program.c_str(), &actions, nullptr, arguments, environment.data()) == 0);
    posix_spawn_file_actions_destroy(&actions);
    children_.push_back(child);
  }
}

Followers::~Followers() {
  for (const pid_t child : children_) {
    if (child == 0) continue;
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
  for (const auto& log : logs_)
    if (!log.empty()) ::unlink(log.c_str());
}

TrainJob Followers::job() { return joined_job(own_, processes_, port_, tiny_); }

void Followers::signal(int process, int signal) { ::kill(children_[static_cast<std::size_t>(process)], signal); }

bool Followers::has_ended(int process) const {
  siginfo_t end{};
  const auto child = static_cast<id_t>(children_[static_cast<std::size_t>(process)]);
  return ::waitid(P_PID, child, &end, WEXITED | WNOHANG | WNOWAIT) == 0 && end.si_pid != 0;
}

std::vector<std::string> Followers::wait() {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  const auto left = [&] {
    return std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  };
  std::vector<std::string> ends;
  for (std::size_t i = 0; i < children_.size(); ++i) {
    if (static_cast<int>(i) == own_) continue;
    int status = 0;
    if (!wait_until([&] { return ::waitpid(children_[i], &status, WNOHANG) != 0; }, left())) {
      ends.push_back("still runs");
      continue;
    }
    children_[i] = 0;
    std::ifstream log(logs_[i]);
    std::string line((std::istreambuf_iterator<char>(log)), {});
    ends.push_back(line == "done" ? "" : line.empty() ? fmt::format("ended with status {}", status) : line);
  }
  return ends;
}

RunRecord run_in_processes(int processes, const TinyRun& tiny, std::int64_t steps, const std::string& transport) {
  Followers followers(processes, tiny,
                      transport.empty() ? std::vector<std::string>() : std::vector{"TEST_ON_GPU=" + transport});
  TrainJob job = followers.job();
  if (!transport.empty()) use_own_gpu(job, transport);
  const auto control = job.processes->control;
  RunRecord record = run(std::move(job), steps);
  control->leave();
  CHECK(followers.wait() == std::vector<std::string>(static_cast<std::size_t>(processes - 1)));
  return record;
}

}  // namespace pipetrain::test
