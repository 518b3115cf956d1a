#include "comm/control/launch_environment.hpp"

#include <map>
#include <string>
#include <vector>

#include "catch.hpp"
#include "comm/control/launch_grace.hpp"
#include "comm/control/launch_job.hpp"
#include "core/error.hpp"

using namespace pipetrain;
using Catch::Matchers::Contains;
using Variables = std::map<std::string, std::string>;

namespace {

// Returns the error of a training process whose variables give it an impossible place.
std::string refusal(const Variables& variables) {
  try {
    if (!read_launch_environment(variables)) refuse_incomplete_place(variables);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::input);
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a process that no launcher has started is alone") {
  CHECK(!read_launch_environment({}));
  CHECK(!read_launch_environment({{"PIPETRAIN_PP", "2"}}));
  CHECK(!read_launch_environment({{"RANK", "0"}, {"WORLD_SIZE", "1"}}));
  // The script of a Slurm job, outside of srun.
  CHECK(!read_launch_environment({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}}));
  // srun --ntasks 1 inside the only process of torchrun or mpirun.
  CHECK(!read_launch_environment({{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}, {"PMIX_RANK", "0"}}));
}

TEST_CASE("torchrun's environment gives the place and the master") {
  const auto place = read_launch_environment({{"RANK", "5"},
                                              {"WORLD_SIZE", "8"},
                                              {"LOCAL_RANK", "1"},
                                              {"LOCAL_WORLD_SIZE", "4"},
                                              {"MASTER_ADDR", "node7"},
                                              {"MASTER_PORT", "1234"}});
  REQUIRE(place);
  CHECK(place->launcher == "torchrun");
  CHECK(place->where == "RANK=5");
  CHECK(place->process == 5);
  CHECK(place->processes == 8);
  CHECK(place->local == 1);
  CHECK(place->local_processes == 4);
  CHECK(place->host == "node7");
  CHECK(place->port == 1234);
}

TEST_CASE("if torchrun itself listens at the master's port, the next port is used") {
  Variables variables{{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "node7"}, {"MASTER_PORT", "29500"}};
  const auto port = [&](const char* agent_store, const char* master_port) {
    variables["TORCHELASTIC_USE_AGENT_STORE"] = agent_store;
    variables["MASTER_PORT"] = master_port;
    return read_launch_environment(variables).value().port;
  };
  CHECK(port("True", "29500") == 29501);
  CHECK(port("True", "65535") == 65534);
  CHECK(port("False", "29500") == 29500);
}

TEST_CASE("Open MPI's environment gives the place, and the master where there is one host") {
  Variables variables{{"OMPI_COMM_WORLD_RANK", "3"},
                      {"OMPI_COMM_WORLD_SIZE", "4"},
                      {"OMPI_COMM_WORLD_LOCAL_RANK", "3"},
                      {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                      {"PMIX_RANK", "3"}};
  auto place = read_launch_environment(variables);
  REQUIRE(place);
  CHECK(place->launcher == "Open MPI");
  CHECK(place->process == 3);
  CHECK(place->local == 3);
  CHECK(place->host == "127.0.0.1");
  variables["OMPI_COMM_WORLD_LOCAL_SIZE"] = "2";
  variables["OMPI_COMM_WORLD_LOCAL_RANK"] = "1";
  place = read_launch_environment(variables);
  REQUIRE(place);
  CHECK(place->host.empty());
  CHECK(!place->port);
}

TEST_CASE("a Slurm step gives the place, and its first host is the master") {
  Variables variables{{"SLURM_PROCID", "2"},
                      {"SLURM_STEP_NUM_TASKS", "4"},
                      {"SLURM_LOCALID", "0"},
                      {"SLURM_STEP_NUM_NODES", "2"},
                      {"SLURM_STEP_NODELIST", "gpu[07-08]"}};
  auto place = read_launch_environment(variables);
  REQUIRE(place);
  CHECK(place->launcher == "Slurm");
  CHECK(place->where == "SLURM_PROCID=2");
  CHECK(place->process == 2);
  CHECK(place->processes == 4);
  CHECK(place->local == 0);
  CHECK(place->host == "gpu07");
  variables["SLURM_STEP_NUM_NODES"] = "1";
  place = read_launch_environment(variables);
  REQUIRE(place);
  CHECK(place->host == "127.0.0.1");
  CHECK(place->local_processes == 4);
}

TEST_CASE("the first host of Slurm's lists") {
  const std::vector<std::pair<std::string, std::string>> lists = {{"node1", "node1"},
                                                                  {"node1,node2", "node1"},
                                                                  {"node[01-04]", "node01"},
                                                                  {"node[3,5-9],login", "node3"},
                                                                  {"a[1-2]-ib,b3", "a1-ib"},
                                                                  {"cn-[0100-0199].x", "cn-0100.x"},
                                                                  {"n1.cluster,n2.cluster", "n1.cluster"}};
  for (const auto& [list, first] : lists) {
    INFO(list);
    CHECK(first_slurm_host(list) == first);
  }
  for (const char* wrong : {"", ",a", "a[", "a[]", "a[-2]"}) {
    INFO(wrong);
    CHECK_THROWS_AS(first_slurm_host(wrong), Error);
  }
}

TEST_CASE("PMIx alone gives the process, but not how many there are") {
  const auto place = read_launch_environment({{"PMIX_RANK", "3"}});
  REQUIRE(place);
  CHECK(place->launcher == "PMIx");
  CHECK(place->process == 3);
  CHECK(place->processes == 0);
}

TEST_CASE("the innermost of several launchers counts") {
  const Variables torchrun_in_slurm{
      {"RANK", "1"}, {"WORLD_SIZE", "8"}, {"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "2"}, {"PMIX_RANK", "0"}};
  CHECK(read_launch_environment(torchrun_in_slurm)->launcher == "torchrun");
  Variables ours = torchrun_in_slurm;
  ours[launch_variable] = "0/2 0/2 0 127.0.0.1 29500";
  CHECK(read_launch_environment(ours)->launcher == "pipetrain launch");
}

TEST_CASE("a process reads the values that pipetrain launch gives it") {
  LaunchPlace written;
  written.process = 6, written.processes = 8, written.local = 2, written.local_processes = 4, written.attempt = 3;
  written.host = "::1", written.port = 4321;
  const auto read = read_launch_environment({{launch_variable, launch_variable_value(written)}});
  REQUIRE(read);
  CHECK(read->process == 6);
  CHECK(read->processes == 8);
  CHECK(read->local == 2);
  CHECK(read->local_processes == 4);
  CHECK(read->attempt == 3);
  CHECK(read->host == "::1");
  CHECK(read->port == 4321);
  for (const char* wrong : {"1", "2/2 0/1 0 h 1", "0/2 1/1 0 h 1", "0/2 0/1 0 h 0", "a/2 0/1 0 h 1", "0/2 0/1 0 h 1 2"}) {
    INFO(wrong);
    CHECK_THAT(refusal({{launch_variable, wrong}}), Contains("is for pipetrain launch to set") || Contains("must be a port"));
  }
}

TEST_CASE("impossible places in a run are refused with the variable") {
  CHECK_THAT(refusal({{"RANK", "4"}, {"WORLD_SIZE", "4"}}),
             Contains("RANK=4: WORLD_SIZE=4 says that there are 4 processes, counted from 0"));
  CHECK_THAT(refusal({{"RANK", "x"}, {"WORLD_SIZE", "4"}}), Contains("RANK=x: must be a number of at least 0"));
  CHECK_THAT(refusal({{"RANK", "-1"}, {"WORLD_SIZE", "4"}}), Contains("RANK=-1: must be a number of at least 0"));
  CHECK_THAT(refusal({{"RANK", "1"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "2"}, {"LOCAL_WORLD_SIZE", "2"}}),
             Contains("LOCAL_RANK=2: LOCAL_WORLD_SIZE=2"));
  CHECK_THAT(refusal({{"RANK", "1"}, {"WORLD_SIZE", "4"}, {"MASTER_PORT", "70000"}}),
             Contains("MASTER_PORT=70000: must be a port from 1 to 65535"));
  CHECK_THAT(refusal({{"SLURM_PROCID", "9"}, {"SLURM_STEP_NUM_TASKS", "4"}}), Contains("SLURM_PROCID=9"));
}

TEST_CASE("an incomplete set of a launcher's variables is refused, because all its processes would run alone") {
  for (const auto& [told, missing] :
       {std::pair{"RANK", "WORLD_SIZE"}, std::pair{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
        std::pair{"PMI_RANK", "PMI_SIZE"}}) {
    INFO(told);
    const std::string unset = std::string(missing) + " is not set";
    CHECK_THAT(refusal({{told, "0"}}), Contains(std::string(told) + "=0: " + unset));
    CHECK_THAT(refusal({{told, "3"}}), Contains(unset));
    CHECK_THAT(refusal({{missing, "8"}}), Contains(std::string(missing) + "=8: " + told + " is not set"));
    CHECK(refusal({{missing, "1"}}).empty());
    CHECK(refusal({{told, "0"}, {missing, "1"}}).empty());
    // Another launcher has given all values.
    CHECK(refusal({{told, "0"}, {"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "2"}}).empty());
  }
}

TEST_CASE("the script of a Slurm job and the shell of salloc are one process, a task of srun without its size is refused") {
  const Variables script{{"SLURM_JOB_ID", "7"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_LOCALID", "0"}};
  CHECK(!read_launch_environment(script));
  CHECK(refusal(script).empty());
  Variables shell = script;  // of an interactive step
  shell["SLURM_STEP_ID"] = "4294967290";
  shell["SLURM_STEP_NUM_TASKS"] = "1";
  CHECK(refusal(shell).empty());
  shell.erase("SLURM_STEP_NUM_TASKS");
  CHECK(refusal(shell).empty());
  Variables task = script;
  task["SLURM_PROCID"] = "2";
  CHECK_THAT(refusal(task), Contains("SLURM_PROCID=2: SLURM_STEP_NUM_TASKS is not set"));
  task["SLURM_PROCID"] = "0";
  task["SLURM_STEPID"] = "0";
  CHECK_THAT(refusal(task), Contains("SLURM_PROCID=0: SLURM_STEP_NUM_TASKS is not set"));
  CHECK_THAT(refusal({{"SLURM_STEP_NUM_TASKS", "2"}}), Contains("SLURM_PROCID is not set"));
}

TEST_CASE("Hydra and PALS give the place by PMI_RANK and PMI_SIZE") {
  auto place = read_launch_environment(
      {{"PMI_RANK", "3"}, {"PMI_SIZE", "4"}, {"MPI_LOCALRANKID", "3"}, {"MPI_LOCALNRANKS", "4"}, {"PMI_JOBID", "kvs_1"}});
  REQUIRE(place);
  CHECK(place->launcher == "PMI");
  CHECK(place->process == 3);
  CHECK(place->processes == 4);
  CHECK(place->local == 3);
  CHECK(place->host == "127.0.0.1");
  CHECK(place->job == "PMI job kvs_1");
  place = read_launch_environment({{"PMI_RANK", "5"}, {"PMI_SIZE", "8"}, {"PMI_LOCAL_RANK", "1"}, {"PMI_LOCAL_SIZE", "4"}});
  REQUIRE(place);
  CHECK(place->local == 1);
  CHECK(place->host.empty());
  CHECK(!read_launch_environment({{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}}));
  // srun --mpi=pmi2 sets them in addition to its own, which say more; mpiexec of a Slurm job starts its helpers by srun.
  const Variables step{{"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_STEP_NUM_NODES", "1"}};
  Variables both = step;
  both["PMI_RANK"] = "1", both["PMI_SIZE"] = "2";
  CHECK(read_launch_environment(both)->launcher == "Slurm");
  both["PMI_RANK"] = "5", both["PMI_SIZE"] = "8";
  CHECK(read_launch_environment(both)->process == 5);
}

TEST_CASE("if one launcher reports a run of one process and another a run of several, both are refused") {
  const Variables variables{{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "2"}};
  CHECK_THAT(refusal(variables), Contains("RANK=0: torchrun describes a run of one process, but Slurm one of 2 "
                                          "(SLURM_PROCID=1); unset"));
}

TEST_CASE("the launcher's job gives the run its name, and its port where the launcher gives none") {
  const auto job = [](Variables variables) {
    const auto place = read_launch_environment(variables);
    REQUIRE(place);
    if (!place->job.empty() && variables.count("MASTER_PORT") == 0) CHECK(place->port == control::port_of_job(place->job));
    return place->job;
  };
  const Variables step{{"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "2"}};
  const auto with = [](Variables variables, const Variables& more) {
    variables.insert(more.begin(), more.end());
    return variables;
  };
  CHECK(job(step).empty());
  CHECK(job(with(step, {{"SLURM_JOB_ID", "12"}, {"SLURM_STEP_ID", "3"}})) == "Slurm job 12.3");
  CHECK(job(with(step, {{"SLURM_JOB_ID", "12"}, {"SLURM_STEPID", "3"}})) == "Slurm job 12.3");
  const Variables mpi{{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "2"}};
  CHECK(job(with(mpi, {{"PMIX_NAMESPACE", "99"}, {"OMPI_MCA_ess_base_jobid", "98"}})) == "Open MPI job 99");
  CHECK(job(with(mpi, {{"OMPI_MCA_ess_base_jobid", "98"}})) == "Open MPI job 98");
  const Variables torch{{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "4000"}};
  CHECK(job(with(torch, {{"TORCHELASTIC_RUN_ID", "none"}})).empty());
  CHECK(job(with(torch, {{"TORCHELASTIC_RUN_ID", "a1"}})) == "torchrun job a1");
  CHECK(read_launch_environment(with(torch, {{"TORCHELASTIC_RUN_ID", "a1"}}))->port == 4000);
  CHECK(control::port_of_job("Slurm job 12.3") != control::port_of_job("Slurm job 12.4"));
  for (int i = 0; i < 1000; ++i) {
    const int port = control::port_of_job("Slurm job " + std::to_string(i));
    CHECK((port >= 20000 && port < 32768));
  }
}

TEST_CASE("the grace that Open MPI and torchrun leave before they kill is known") {
  using std::chrono::seconds;
  CHECK(!launch_grace({}));
  CHECK(!launch_grace({{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "2"}}));
  Variables variables{{"OMPI_COMM_WORLD_RANK", "0"}};
  CHECK(launch_grace(variables) == seconds(1));
  variables["OMPI_MCA_odls_base_sigkill_timeout"] = "60";
  CHECK(launch_grace(variables) == seconds(60));
  variables["TORCHELASTIC_RUN_ID"] = "none";
  CHECK(launch_grace(variables) == seconds(30));
  CHECK(launch_grace({{"OMPI_COMM_WORLD_RANK", "0"}, {"PRTE_MCA_odls_base_sigkill_timeout", "7"}}) == seconds(7));
  CHECK_THROWS_AS(launch_grace({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_MCA_odls_base_sigkill_timeout", "x"}}), Error);
}
