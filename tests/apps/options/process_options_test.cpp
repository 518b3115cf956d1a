// The place of this process in a run, from options and launchers, and contradictions that are refused.
#include "apps/options/process_options.hpp"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "apps/options/train_options.hpp"
#include "catch.hpp"
#include "comm/control/launch_job.hpp"
#include "core/error.hpp"
#include "temp_folder.hpp"

using namespace pipetrain;
using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;
using Words = std::vector<std::string>;

namespace {

const Environment torchrun = {
    {"RANK", "1"},          {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"},
    {"MASTER_PORT", "4000"}};

TrainOptions parse_processes(Words words, const Environment& environment = {}, const Machine& machine = {0, 8}) {
  return parse_train_options(words, environment, machine);
}

template <class Call>
std::string refusal(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::input);
    return error.what();
  }
  return "";
}
std::string refused_processes(const Words& words, const Environment& environment = {}) {
  return refusal([&] { parse_processes(words, environment); });
}
std::string launch_refused(const Words& words, const Environment& environment = {}) {
  return refusal([&] { parse_launch_options(words, environment, {0, 8}); });
}

}  // namespace

TEST_CASE("a run has one process unless something says more") {
  const auto processes = parse_processes({"--pp", "2"}).processes;
  CHECK(!processes.several());
  CHECK(processes.leads());
  CHECK(processes.timeout == std::chrono::seconds(300));
  CHECK(!parse_processes({"--pp", "2", "--nnodes", "1", "--node-rank", "0", "--transport", "inproc"}).processes.several());
}

TEST_CASE("one process on every node is placed by hand") {
  const auto processes = parse_processes({"--pp", "2", "--nnodes", "2", "--node-rank", "1", "--master", "localhost:4000",
                                          "--rendezvous-timeout", "7", "--transport", "ucx"})
                             .processes;
  CHECK(processes.process == 1);
  CHECK(processes.processes == 2);
  CHECK(!processes.leads());
  CHECK(processes.master.host == "localhost");
  CHECK(processes.master.port == 4000);
  CHECK(processes.timeout == std::chrono::seconds(7));
  CHECK(processes.transport == TransportKind::ucx);
}

TEST_CASE("a launcher's environment places the process, and the master can be given in addition") {
  auto processes = parse_processes({"--pp", "2"}, torchrun).processes;
  CHECK(processes.process == 1);
  CHECK(processes.processes == 2);
  CHECK(processes.local == 1);
  CHECK(processes.locals == 2);
  CHECK(processes.master.port == 4000);
  processes = parse_processes({"--pp", "2", "--master", "127.0.0.1:5000"}, torchrun).processes;
  CHECK(processes.master.port == 5000);
  processes = parse_processes({"--pp", "4", "--nnodes", "4", "--master", "localhost"}, {{"PMIX_RANK", "3"}}).processes;
  CHECK(processes.process == 3);
  CHECK(processes.processes == 4);
  CHECK(processes.master.port == 29500);
}

TEST_CASE("the cores of a host are shared by the ranks on it") {
  CHECK(parse_processes({"--pp", "2"}, torchrun).run.devices.threads == 4);
  Environment far = torchrun;
  far["LOCAL_RANK"] = "0";
  far["LOCAL_WORLD_SIZE"] = "1";
  CHECK(parse_processes({"--pp", "2"}, far).run.devices.threads == 8);
}

TEST_CASE("ranks take the GPUs of their host in order") {
  const Words four = {"--pp", "4", "--device", "cuda"};
  const auto gpus = [&](const Environment& environment, int visible, Words words) {
    return parse_processes(std::move(words), environment, {visible, 8}).run.devices.gpus;
  };
  // The second process's ranks are 2 and 3.
  CHECK(gpus(torchrun, 4, four) == std::vector<int>{2, 3});
  // Each process sees its own only.
  CHECK(gpus(torchrun, 2, four) == std::vector<int>{0, 1});
  Environment second_host = torchrun;
  second_host["LOCAL_RANK"] = "0";
  second_host["LOCAL_WORLD_SIZE"] = "1";
  CHECK(gpus(second_host, 8, four) == std::vector<int>{0, 1});
  Words chosen = four;
  chosen.insert(chosen.end(), {"--devices", "6,7"});
  CHECK(gpus(second_host, 8, chosen) == std::vector<int>{6, 7});
  Words dry = four;
  dry.push_back("--dry-run");
  CHECK(gpus(torchrun, 4, dry) == std::vector<int>{0, 1, 2, 3});
  CHECK_THAT(refusal([&] { gpus(second_host, 8, dry); }), StartsWith("--dry-run: a dry run of GPUs on several hosts"));
  CHECK_THAT(refused_processes({"--pp", "4", "--device", "cuda"}, torchrun), Contains("takes 4 GPUs"));
  CHECK_THAT(refused_processes({"--pp", "4", "--device", "cuda"}, second_host), Contains("takes 2 GPUs on this host"));
}

TEST_CASE("a process of a launcher is a run of its own where --nnodes 1 says so") {
  const Environment task = {{"SLURM_PROCID", "3"}, {"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_STEP_NUM_NODES", "1"}};
  const Environment nested = {{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"SLURM_PROCID", "3"}, {"SLURM_STEP_NUM_TASKS", "4"}};
  for (const Environment& environment : {task, nested, torchrun, Environment{{"PMIX_RANK", "3"}}, Environment{{"RANK", "1"}}}) {
    const auto processes = parse_processes({"--nnodes", "1"}, environment).processes;
    CHECK(!processes.several());
    CHECK(processes.leads());
    CHECK(parse_launch_options({"--nproc", "2", "--pp", "2", "--nnodes", "1"}, environment, {0, 8}).launch.processes() == 2);
  }
  CHECK(parse_processes({"--pp", "2", "--nnodes", "1"}, {{launch_variable, "1/2 1/2 0 127.0.0.1 29500"}}).processes.several());
  CHECK_THAT(refused_processes({}, task), StartsWith("SLURM_PROCID=3: 4 processes for 1 rank") &&
                                              EndsWith(", or give --nnodes 1 where each process is to be a run of its own"));
  for (const Environment& far : {Environment{{"PMIX_RANK", "3"}}, Environment{{"RANK", "1"}, {"WORLD_SIZE", "2"}}})
    CHECK_THAT(refused_processes({"--pp", "2"}, far), Contains(", or give --nnodes 1 where"));
  CHECK_THAT(launch_refused({"--pp", "2", "--nproc", "2"}, task), Contains("or give --nnodes 1"));
}

TEST_CASE("places that make no sense are refused with the option") {
  CHECK_THAT(refused_processes({"--nnodes", "2", "--pp", "2"}), StartsWith("--nnodes 2: --node-rank is missing"));
  CHECK_THAT(refused_processes({"--nnodes", "2", "--node-rank", "0", "--pp", "2"}),
             StartsWith("--nnodes 2: --master HOST:PORT is missing"));
  CHECK_THAT(refused_processes({"--nnodes", "2", "--node-rank", "2", "--master", "localhost", "--pp", "2"}),
             StartsWith("--node-rank 2: --nnodes is 2"));
  CHECK_THAT(refused_processes({"--master", "localhost"}), StartsWith("--master localhost: this run has one process"));
  CHECK_THAT(refused_processes({"--nnodes", "3", "--node-rank", "0", "--master", "localhost", "--pp", "2"}),
             StartsWith("--nnodes 3: 3 processes for 2 ranks"));
  CHECK_THAT(refused_processes({"--pp", "1"}, torchrun), StartsWith("RANK=1: 2 processes for 1 rank"));
  CHECK_THAT(refused_processes({"--pp", "2", "--nnodes", "2"}, torchrun),
             StartsWith("--nnodes 2: torchrun sets the processes (RANK=1)"));
  CHECK_THAT(refused_processes({"--pp", "2", "--node-rank", "1"}, torchrun),
             StartsWith("--node-rank 1: torchrun sets the processes"));
  CHECK_THAT(refused_processes({"--pp", "4"}, {{"PMIX_RANK", "3"}}), StartsWith("PMIX_RANK=3: PMIx does not say how many"));
  CHECK_THAT(refused_processes({"--pp", "4", "--nnodes", "3", "--master", "localhost"}, {{"PMIX_RANK", "3"}}),
             StartsWith("--nnodes 3: PMIx says that this is process 3"));
  CHECK_THAT(refused_processes({"--pp", "2"}, {{"RANK", "1"}, {"WORLD_SIZE", "2"}}),
             StartsWith("RANK=1: torchrun does not say where"));
  CHECK_THAT(refused_processes({"--nproc", "2", "--pp", "2"}), StartsWith("--nproc 2: belongs to pipetrain launch"));
  CHECK_THAT(refused_processes({"--restart", "2"}), StartsWith("--restart 2: belongs to pipetrain launch"));
  CHECK_THAT(refused_processes({"--transport", "nccl"}),
             StartsWith("--transport nccl: is between processes, and this run has one"));
  CHECK_THAT(refused_processes({"--transport", "mpi"}),
             StartsWith("--transport mpi: must be one of auto, inproc, ipc, nccl, nccl-put, nccl-send, ucx"));
  CHECK_THAT(refused_processes({"--pp", "2", "--transport", "inproc"}, torchrun),
             StartsWith("--transport inproc: is within one process"));
  CHECK_THAT(refused_processes({"--rendezvous-timeout", "0"}), StartsWith("--rendezvous-timeout 0: must be at least 1"));
}

TEST_CASE("masters that are not an address are refused") {
  for (const char* wrong : {":29500", "a:", "a:0", "a:65536", "a:b", "[::1", "[::1]29500", "[::1]:", "a b:1", "a:1:2"}) {
    INFO(wrong);
    CHECK(!parse_master(wrong));
  }
  CHECK(parse_master("a")->port == 29500);
  CHECK(parse_master("10.0.0.1:1")->host == "10.0.0.1");
  CHECK(parse_master("[::1]:77")->host == "::1");
  CHECK(parse_master("[::1]:77")->port == 77);
  CHECK(parse_master("[fe80::1]")->host == "fe80::1");
  CHECK_THAT(refused_processes({"--nnodes", "2", "--node-rank", "0", "--pp", "2", "--master", "a:b"}),
             StartsWith("--master a:b: must be HOST:PORT"));
}

TEST_CASE("only loopback does without a token") {
  for (const char* host : {"127.0.0.1", "127.1.2.3", "localhost", "::1"}) CHECK(is_loopback(host));
  for (const char* host : {"10.0.0.1", "127.example.org", "host", "::", "0.0.0.0", "localhost.example.org"})
    CHECK(!is_loopback(host));

  const Words far = {"--pp", "2", "--nnodes", "2", "--node-rank", "0", "--master", "10.0.0.1:1"};
  CHECK_THAT(refused_processes(far),
             StartsWith("--master 10.0.0.1:1: 10.0.0.1 is reached from other hosts, so the run needs a token"));
  CHECK(parse_processes(far, {{"PIPETRAIN_TOKEN", "secret"}}).processes.token == "secret");

  const TempFolder folder;
  const std::string file = (folder.path() / "token").string();
  Words with_file = far;
  with_file.insert(with_file.end(), {"--token-file", file});
  CHECK_THAT(refused_processes(with_file), Contains("--token-file " + file + ": there is no such file; check the path"));
  std::ofstream(file) << "\n";
  CHECK_THAT(refused_processes(with_file), Contains("its first line must be the run's token"));
  std::ofstream(file) << "from file\n";
  CHECK(parse_processes(with_file, {{"PIPETRAIN_TOKEN", "secret"}}).processes.token == "from file");
}

TEST_CASE("pipetrain launch checks the run and its processes at once") {
  const auto run = parse_launch_options({"--nproc", "2", "--nnodes", "2", "--node-rank", "1", "--master", "localhost:77",
                                         "--pp", "4", "--save", "/tmp/nowhere-yet", "--restart", "3"},
                                        {}, {0, 8});
  CHECK(run.launch.nproc == 2);
  CHECK(run.launch.processes() == 4);
  CHECK(run.launch.node_rank == 1);
  CHECK(run.launch.master->port == 77);
  CHECK(run.launch.restarts == 3);
  CHECK(run.train.run.layout.pp == 4);

  CHECK_THAT(launch_refused({"--pp", "2"}), StartsWith("--nproc: is missing"));
  CHECK_THAT(launch_refused({"--pp", "2", "--nproc", "3"}), StartsWith("--nproc 3: 3 processes for 2 ranks"));
  CHECK_THAT(launch_refused({"--pp", "2", "--nproc", "0"}), StartsWith("--nproc 0: must be at least 1"));
  CHECK_THAT(launch_refused({"--pp", "2", "--nproc", "2"}, torchrun),
             StartsWith("launch: torchrun has started this process already"));
  CHECK_THAT(launch_refused({"--pp", "2", "--nproc", "1"}, {{launch_variable, "0/2 0/2 0 127.0.0.1 29500"}}),
             StartsWith("launch: pipetrain launch has started this process already"));
  CHECK_THAT(launch_refused({"--pp", "2", "--nproc", "1", "--nnodes", "2", "--node-rank", "0"}),
             StartsWith("--nnodes 2: --master HOST:PORT is missing"));
  CHECK_THAT(launch_refused({"--pp", "2", "--nproc", "2", "--master", "10.0.0.1"}),
             StartsWith("--master 10.0.0.1: 10.0.0.1 is reached"));
  CHECK_THAT(launch_refused({"--pp", "2", "--nproc", "2", "--restart", "1"}), StartsWith("--restart 1: needs --save DIR"));
  CHECK_THAT(launch_refused({"--pp", "2", "--nproc", "2", "--lr", "x"}), StartsWith("--lr x"));
  CHECK_THAT(launch_refused({"--pp", "2", "--nproc", "2", "--transport", "inproc"}), StartsWith("--transport inproc"));
}

TEST_CASE("a Slurm step of one task a node may start one launch on each") {
  const Environment step = {{"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "2"}};
  const Words words = {"--pp", "4", "--nproc", "2", "--nnodes", "2", "--node-rank", "1", "--master", "localhost"};
  CHECK(parse_launch_options(words, step, {0, 8}).launch.node_rank == 1);
  CHECK_THAT(launch_refused({"--pp", "4", "--nproc", "2"}, step), StartsWith("launch: Slurm has started this process already"));
}

TEST_CASE("a restarted run resumes from its checkpoint, without the fault") {
  const TempFolder folder;
  const std::string save = (folder.path() / "run").string(), other = (folder.path() / "other").string();
  std::filesystem::create_directories(other);
  const Words words = {"--save", save, "--load", other};
  const Environment again = {{launch_variable, "0/1 0/1 1 127.0.0.1 29500"}, {"PIPETRAIN_FAULT", "0:1:throw"}};
  auto options = parse_processes(words, again);
  CHECK(!options.run.saving.resume);  // it has saved nothing
  CHECK(options.run.saving.load == other);
  CHECK(!options.run.fault);
  std::filesystem::create_directories(save + "/step-00000002");
  options = parse_processes(words, again);
  CHECK(options.run.saving.resume);
  CHECK(!options.run.saving.load);
}

TEST_CASE("the grace after SIGTERM comes from the option, else from the launcher") {
  CHECK(!parse_processes({}).processes.stop_grace);
  CHECK(parse_processes({"--stop-grace", "5"}).processes.stop_grace == std::chrono::seconds(5));
  CHECK(parse_processes({}, {{"PIPETRAIN_STOP_GRACE", "6"}}).processes.stop_grace == std::chrono::seconds(6));
  const Environment mpi{{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}};
  CHECK(parse_processes({}, mpi).processes.stop_grace == std::chrono::seconds(1));
  CHECK(parse_processes({"--stop-grace", "9"}, mpi).processes.stop_grace == std::chrono::seconds(9));
  CHECK_THAT(refused_processes({"--stop-grace", "-1"}), StartsWith("--stop-grace -1: must be at least 0"));
}

TEST_CASE("an incomplete place in the environment is refused, unless the options give all of it") {
  const std::string line = "RANK=1: WORLD_SIZE is not set";
  CHECK_THAT(refused_processes({"--pp", "2"}, {{"RANK", "1"}}), StartsWith(line));
  CHECK_THAT(launch_refused({"--pp", "2", "--nproc", "2"}, {{"RANK", "1"}}), StartsWith(line));
  CHECK(parse_processes({"--pp", "2", "--nnodes", "2", "--node-rank", "1", "--master", "localhost"}, {{"RANK", "1"}})
            .processes.process == 1);
}

TEST_CASE("runs of a launcher that gives no port meet at one of their job's, unless an option gives one") {
  Environment step{{"SLURM_PROCID", "1"},        {"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_STEP_NUM_NODES", "1"},
                   {"SLURM_STEP_NODELIST", "n"}, {"SLURM_JOB_ID", "12"},        {"SLURM_STEP_ID", "0"}};
  const auto processes = parse_processes({"--pp", "2"}, step).processes;
  CHECK(processes.job == "Slurm job 12.0");
  CHECK(processes.master.port == control::port_of_job(processes.job));
  CHECK(parse_processes({"--pp", "2", "--master", "127.0.0.1:4000"}, step).processes.master.port == 4000);
  step["SLURM_JOB_ID"] = "13";
  CHECK(parse_processes({"--pp", "2"}, step).processes.master.port != processes.master.port);
}

TEST_CASE("a token that others can read or guess is noted by process 0") {
  const TempFolder folder;
  const auto notes = [&](const std::string& token, std::filesystem::perms perms, const char* rank = "0") {
    const std::filesystem::path file = folder.write("token", token + "\n");
    std::filesystem::permissions(file, perms);
    std::string text;
    for (const auto& note : parse_processes({"--pp", "2", "--nnodes", "2", "--node-rank", rank, "--master", "localhost",
                                             "--token-file", file.string(), "--device", "cpu"})
                                .notes)
      text += note + "\n";
    return text;
  };
  using std::filesystem::perms;
  const perms own = perms::owner_read | perms::owner_write;
  CHECK(notes("0123456789abcdef", own).empty());
  CHECK_THAT(notes("0123456789abcdef", own | perms::group_read), Contains("other users of this host can read the run's token"));
  CHECK_THAT(notes("0123456789abcdef", own | perms::others_read), Contains("(chmod 600)"));
  CHECK_THAT(notes("0123456789abcde", own), Contains("a token of 15 bytes can be guessed"));
  CHECK(notes("short", perms::all, "1").empty());
  const auto short_variable =
      parse_processes({"--pp", "2", "--nnodes", "2", "--node-rank", "0", "--master", "localhost", "--device", "cpu"},
                      {{"PIPETRAIN_TOKEN", "abc"}})
          .notes;
  REQUIRE(short_variable.size() == 1);
  CHECK_THAT(short_variable.front(), StartsWith("PIPETRAIN_TOKEN: a token of 3 bytes can be guessed"));
}
