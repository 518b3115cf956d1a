#include "apps/launch/one_node_slurm.hpp"

#include <pwd.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "comm/control/held_port.hpp"
#include "wait_until.hpp"

namespace pipetrain::test {
namespace {

bool succeeds(const std::string& command) { return std::system((command + " >/dev/null 2>&1").c_str()) == 0; }

std::string slurm_node() {
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  const std::string whole = name;
  return whole.substr(0, whole.find('.'));
}

std::string user_name() {
  const passwd* entry = ::getpwuid(::getuid());
  return entry ? entry->pw_name : "root";
}

// Debian's daemons are in a folder that not every user's PATH has.
const std::string daemon_path = "PATH=\"$PATH:/usr/sbin\"";

}  // namespace

OneNodeSlurm::OneNodeSlurm() {
  for (const char* program : {"munged", "slurmctld", "slurmd", "srun", "scancel"}) {
    if (succeeds(daemon_path + " command -v " + program)) continue;
    why_not_ = std::string(program) + " is not installed (packages slurm-wlm and munge)";
    return;
  }
  write_configuration();
  const std::string folder = folder_.path().string();
  start({"munged", "--foreground", "--force", "--key-file=" + folder + "/key", "--socket=" + folder + "/munge",
         "--pid-file=" + folder + "/munged.pid", "--log-file=" + folder + "/munged.log", "--seed-file=" + folder + "/seed"});
  if (!wait_until([&] { return std::filesystem::exists(folder + "/munge"); })) {
    why_not_ = "munged does not start";
    return;
  }
  start({"slurmctld", "-D", "-f", folder + "/slurm.conf"});
  start({"slurmd", "-D", "-f", folder + "/slurm.conf"});
  if (!wait_until([&] { return succeeds(variable() + " sinfo -h -t idle -o %t | grep -q idle"); }))
    why_not_ = "slurmctld and slurmd do not start here";
}

OneNodeSlurm::~OneNodeSlurm() {
  if (why_not_.empty()) static_cast<void>(succeeds(variable() + " scancel -s KILL -u " + user_name()));
  for (auto daemon = daemons_.rbegin(); daemon != daemons_.rend(); ++daemon) {
    ::kill(*daemon, SIGTERM);
    if (!wait_until([&] { return ::waitpid(*daemon, nullptr, WNOHANG) != 0; })) ::kill(*daemon, SIGKILL);
  }
}

std::string OneNodeSlurm::variable() const { return "SLURM_CONF='" + (folder_.path() / "slurm.conf").string() + "'"; }

void OneNodeSlurm::write_configuration() const {
  const std::string folder = folder_.path().string(), node = slurm_node(), user = user_name();
  for (const char* name : {"state", "spool"}) std::filesystem::create_directory(folder_.path() / name);
  std::ofstream(folder_.path() / "key") << std::string(1024, 'k');
  std::filesystem::permissions(folder_.path() / "key", std::filesystem::perms::owner_read);
  const HeldPort controller(0), daemon(0);
  std::ofstream(folder_.path() / "slurm.conf")
      << "ClusterName=test\nSlurmctldHost=" << node << "(127.0.0.1)\nAuthType=auth/munge\nAuthInfo=socket=" << folder
      << "/munge\nCredType=cred/munge\nMpiDefault=none\nProctrackType=proctrack/pgid\nTaskPlugin=task/none\nSlurmctldPort="
      << controller.port() << "\nSlurmdPort=" << daemon.port() << "\nSlurmUser=" << user << "\nSlurmdUser=" << user
      << "\nStateSaveLocation=" << folder << "/state\nSlurmdSpoolDir=" << folder << "/spool\nSlurmctldPidFile=" << folder
      << "/slurmctld.pid\nSlurmdPidFile=" << folder << "/slurmd.pid\nSlurmctldLogFile=" << folder
      << "/slurmctld.log\nSlurmdLogFile=" << folder
      << "/slurmd.log\nSelectType=select/cons_tres\nSlurmdParameters=config_overrides\nReturnToService=2\nNodeName=" << node
      << " NodeAddr=127.0.0.1 CPUs=8 State=UNKNOWN\nPartitionName=p Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n";
}

void OneNodeSlurm::start(const std::vector<std::string>& words) {
  std::string command = daemon_path + " exec";
  for (const std::string& word : words) command += " '" + word + "'";
  command += " >>'" + (folder_.path() / "daemons").string() + "' 2>&1";
  const pid_t parent = ::getpid();
  const pid_t daemon = ::fork();
  if (daemon == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);
    ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    ::_exit(127);
  }
  if (daemon > 0) daemons_.push_back(daemon);
}

}  // namespace pipetrain::test
