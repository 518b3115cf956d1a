#include "comm/control/launch_environment.hpp"

#include <map>
#include <string>
#include <vector>

#include "catch.hpp"
#include "core/error.hpp"

using namespace pipetrain;
using Catch::Matchers::Contains;
using Variables = std::map<std::string, std::string>;

namespace {

std::string refusal(const Variables& variables) {
  try {
    read_launch_environment(variables);
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
  CHECK(!read_launch_environment({{"RANK", "3"}}));        // others use such words too
  CHECK(!read_launch_environment({{"WORLD_SIZE", "8"}}));  // as a script that calls torchrun does
  CHECK(!read_launch_environment({{"RANK", "0"}, {"WORLD_SIZE", "1"}}));
  // The script of a Slurm job, outside srun.
  CHECK(!read_launch_environment({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}}));
  // srun --ntasks 1 inside torchrun's or mpirun's single process.
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

TEST_CASE("where torchrun itself listens at the master's port, the next one is taken") {
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

TEST_CASE("of several launchers the innermost counts") {
  const Variables torchrun_in_slurm{
      {"RANK", "1"}, {"WORLD_SIZE", "8"}, {"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "2"}, {"PMIX_RANK", "0"}};
  CHECK(read_launch_environment(torchrun_in_slurm)->launcher == "torchrun");
  Variables ours = torchrun_in_slurm;
  ours[launch_variable] = "0/2 0/2 0 127.0.0.1 29500";
  CHECK(read_launch_environment(ours)->launcher == "pipetrain launch");
}

TEST_CASE("what pipetrain launch tells a process is read as it was written") {
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

TEST_CASE("places that cannot be are refused with the variable") {
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
