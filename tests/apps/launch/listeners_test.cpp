// The sockets on which a run of several processes listens, and what strangers send to them.
#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "apps/live_run.hpp"
#include "apps/pipetrain_program.hpp"
#include "bench/faults/listening_sockets.hpp"
#include "bench/faults/marked_processes.hpp"
#include "catch.hpp"
#include "skip.hpp"

using namespace pipetrain;
using bench::ListeningSocket;
using bench::ProcessMark;
namespace fs = std::filesystem;

namespace {

const std::string disturbed_run = "--pp 2 --device cpu --threads 1 --seq-len 8 --layers 4 --microbatches 4 --log-interval 1 ";
constexpr int two_host_steps = 3000;  // enough that the run outlasts the strangers, who wait 2 s for UCX's sockets to close

// Returns losses and norms of all steps.
std::string losses(const fs::path& metrics) {
  std::string found;
  std::ifstream lines(metrics);
  for (std::string line; std::getline(lines, line);) found += line.substr(0, line.find(",\"lr\"")) + "\n";
  return found;
}

std::string undisturbed_losses(int steps) {
  const TempFolder folder;
  const fs::path metrics = folder.path() / "metrics.jsonl";
  REQUIRE(run(disturbed_run + fmt::format("--steps {} ", steps) + "--metrics '" + metrics.string() + "'").status == 0);
  return losses(metrics);
}

std::vector<ListeningSocket> sockets_of(const ProcessMark& mark) {
  std::vector<ListeningSocket> all;
  for (const pid_t process : mark.processes())
    for (const ListeningSocket& socket : bench::listening_sockets(process)) all.push_back(socket);
  return all;
}

// Sends every noise to every socket, and leaves half of the connections open until the next call. Returns how many were
// accepted.
int send_noise(const std::vector<ListeningSocket>& sockets) {
  int taken = 0;
  static std::vector<int> open;
  for (const int socket : std::exchange(open, {})) ::close(socket);
  for (const ListeningSocket& socket : sockets) {
    for (const std::string& noise : bench::noises()) {
      const int connection = bench::shout(socket, noise);
      if (connection < 0) continue;
      if (++taken % 2 == 0)
        ::close(connection);
      else
        open.push_back(connection);
    }
  }
  return taken;
}

// Two network namespaces with a link between them. Needs root and ip(8).
class TwoHosts {
 public:
  TwoHosts() : name_(fmt::format("ptl{}", ::getpid() % 100000)) {
    made_ = ::geteuid() == 0 &&
            shell(fmt::format(
                "ip netns add {0}a && ip netns add {0}b && ip link add eth0 netns {0}a type veth peer name eth0 netns {0}b",
                name_));
    for (const int host : {0, 1}) {
      made_ = made_ &&
              shell(fmt::format("ip -n {0} addr add {1}/24 dev eth0 && ip -n {0} link set eth0 up && ip -n {0} link set lo up",
                                name(host), address(host)));
    }
    made_ =
        made_ && test::wait_until([&] { return shell(fmt::format("ip -n {} link show eth0 | grep -q 'state UP'", name(1))); });
  }
  ~TwoHosts() {
    for (const int host : {0, 1}) shell("ip netns del " + name(host));
  }
  TwoHosts(const TwoHosts&) = delete;
  TwoHosts& operator=(const TwoHosts&) = delete;

  bool made() const { return made_; }
  std::string name(int host) const { return name_ + (host == 0 ? "a" : "b"); }
  static std::string address(int host) { return fmt::format("10.79.0.{}", host + 1); }

 private:
  static bool shell(const std::string& command) { return std::system(("(" + command + ") > /dev/null 2>&1").c_str()) == 0; }
  std::string name_;
  bool made_ = false;
};

std::vector<ListeningSocket> open_ones(std::vector<ListeningSocket> sockets) {
  std::erase_if(sockets, [](const ListeningSocket& socket) { return !bench::takes_connections(socket); });
  return sockets;
}

// UCX's sockets are closed once the processes are connected. The master's accept any process that has the token.
bool only_master_is_open(const std::vector<ListeningSocket>& sockets, std::uint16_t master) {
  return test::wait_until([&] {
    return std::none_of(sockets.begin(), sockets.end(), [&](const ListeningSocket& socket) {
      return socket.port() != master && bench::takes_connections(socket);
    });
  });
}

bool enter_namespace(const std::string& name) {
  const int handle = ::open(("/run/netns/" + name).c_str(), O_RDONLY | O_CLOEXEC);
  return handle >= 0 && ::setns(handle, CLONE_NEWNET) == 0;
}

}  // namespace

TEST_CASE("a launch on one host listens on loopback only, and strangers' bytes do not disturb it", "[launch][hostile]") {
  const std::string expected = undisturbed_losses(100);
  const TempFolder folder;
  const ProcessMark mark;
  const fs::path metrics = folder.path() / "metrics.jsonl";
  LiveRun launch("launch --nproc 2 --steps 100 " + disturbed_run + "--metrics '" + metrics.string() + "'", mark.variable());
  launch.wait_until([&] { return launch.err().find("step 1/") != std::string::npos; });
  const auto sockets = sockets_of(mark);
  CHECK_FALSE(sockets.empty());  // process 0 waits for the others
  for (const ListeningSocket& socket : sockets) CHECK(socket.is_loopback());
  for (int time = 0; time < 3; ++time) CHECK(send_noise(sockets) > 0);
  const int status = launch.end_by(0);
  INFO(launch.err());
  CHECK(status == 0);
  CHECK(losses(metrics) == expected);
}

TEST_CASE("strangers' bytes do not disturb a run of two hosts", "[launch][hostile][slow][alone]") {
  const TwoHosts hosts;
  if (!hosts.made()) return test::skip("needs root, and ip netns");
  const std::string expected = undisturbed_losses(two_host_steps);
  const TempFolder folder;
  const ProcessMark mark;
  const fs::path metrics = folder.path() / "metrics.jsonl", program = program_path();
  // ip(8) starts the program in each namespace; the noise comes from the other namespace and from its own.
  const auto on_host = [&](int host) {
    return fmt::format("ip netns exec {} '{}' launch --steps {} --nproc 1 --nnodes 2 --node-rank {} --master {}:29500 {} {}",
                       hosts.name(host), program.string(), two_host_steps, host, TwoHosts::address(0), disturbed_run,
                       host == 0 ? "--metrics '" + metrics.string() + "'" : "");
  };
  const std::string script =
      fmt::format("export {} PIPETRAIN_TOKEN=a-token-of-a-test; {} & {}; wait", mark.variable(), on_host(1), on_host(0));
  const fs::path file = folder.write("run.sh", script), err = folder.path() / "err";
  const pid_t child = ::fork();
  if (child == 0) {
    ::execl("/bin/sh", "sh", "-c", fmt::format("sh '{}' > '{}' 2>&1", file.string(), err.string()).c_str(), nullptr);
    ::_exit(127);
  }
  const bool began = test::wait_until([&] { return read_file(err).find("step 1/") != std::string::npos; });
  std::vector<pid_t> strangers;  // one in each host, at the same time: the run must outlast both
  for (const int host : {0, 1}) {
    strangers.push_back(::fork());
    if (strangers.back() != 0) continue;
    const bool inside = enter_namespace(hosts.name(host)) && only_master_is_open(sockets_of(mark), 29500);
    int taken = 0;
    for (int time = 0; inside && time < 3; ++time) taken += send_noise(open_ones(sockets_of(mark)));
    ::_exit(taken > 0 ? 0 : 1);
  }
  for (const pid_t stranger : strangers) {
    int status = 0;
    ::waitpid(stranger, &status, 0);
    CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  INFO(read_file(err));
  CHECK(began);
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
  CHECK(losses(metrics) == expected);
}
