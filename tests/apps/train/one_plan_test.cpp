// A schedule such as auto searches for its plan, which takes long: a run does it once, whatever asks for the plan.
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "apps/train/train.hpp"
#include "catch.hpp"
#include "comm/control/held_port.hpp"
#include "comm/control/launch_environment.hpp"
#include "schedules/builders/builders.hpp"
#include "temp_folder.hpp"

using namespace pipetrain;

namespace {

int searches = 0;

schedules::Plan counted_search(const schedules::ScheduleShape& shape) {
  ++searches;
  return schedules::build_auto(shape);
}

// Counts what build_schedule() searches for while it lives. The rows of the table are no constants themselves.
class CountedSearches {
 public:
  CountedSearches() : row_(const_cast<schedules::ScheduleInfo&>(*schedules::find_schedule("auto"))) {
    searches = 0;
    row_.build = counted_search;
  }
  CountedSearches(const CountedSearches&) = delete;
  CountedSearches& operator=(const CountedSearches&) = delete;
  ~CountedSearches() { row_.build = schedules::build_auto; }
  int count() const { return searches; }

 private:
  schedules::ScheduleInfo& row_;
};

std::vector<std::string> searched_run(std::vector<std::string> arguments) {
  for (const char* word : {"--schedule", "auto", "--pp", "2", "--device", "cpu", "--layers", "2", "--seq-len", "8", "--steps",
                           "2", "--threads", "1"})
    arguments.emplace_back(word);
  return arguments;
}

int searches_of(const std::vector<std::string>& arguments) {
  const CountedSearches counted;
  CHECK(run_train(parse_train_options(searched_run(arguments), {}, {0, 2})) == 0);
  return counted.count();
}

// Runs one of the two processes that pipetrain launch starts. Returns the number of searches; -1 where it fails.
int searches_of_process(int process, std::uint16_t port, const std::vector<std::string>& arguments) {
  const CountedSearches counted;
  LaunchPlace place;
  place.process = place.local = process, place.processes = place.local_processes = 2;
  place.host = MasterAddress{}.host, place.port = port;
  try {
    const Environment environment{{launch_variable, launch_variable_value(place)}};
    return run_train(parse_train_options(arguments, environment, {0, 2})) == 0 ? counted.count() : -1;
  } catch (const std::exception&) {
    return -1;
  }
}

// Returns the searches of each process of a launch of two.
std::vector<int> searches_of_processes(const std::vector<std::string>& arguments) {
  const HeldPort port(MasterAddress{}.port);
  std::vector<pid_t> children;
  for (int process = 0; process < 2; ++process) {
    children.push_back(::fork());
    if (children.back() != 0) continue;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::_exit(searches_of_process(process, port.port(), arguments));
  }
  std::vector<int> found;
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    found.push_back(WIFEXITED(status) ? WEXITSTATUS(status) : -1);
  }
  return found;
}

}  // namespace

TEST_CASE("a run searches for its plan once, with a report, a profile, ZeRO and post-validation, and so does a dry run") {
  const TempFolder folder;
  const auto file = [&](const char* name) { return (folder.path() / name).string(); };
  CHECK(searches_of({"--dp", "2", "--zero", "2", "--report", file("report.html"), "--profile", file("costs.json"), "--trace",
                     file("trace.json"), "--save", file("run")}) == 1);
  CHECK(searches_of({"--post-validation", "on", "--split", "0.1"}) == 1);
  CHECK(searches_of({"--dp", "2", "--zero", "2", "--dry-run"}) == 1);
}

TEST_CASE("each process of a launch searches for its plan once, and launch itself does not") {
  const TempFolder folder;
  std::vector<std::string> arguments =
      searched_run({"--dp", "2", "--zero", "2", "--report", (folder.path() / "report.html").string()});
  CHECK(searches_of_processes(arguments) == std::vector<int>{1, 1});
  const CountedSearches counted;
  arguments.insert(arguments.end(), {"--nproc", "2"});
  const LaunchedRun launched = parse_launch_options(arguments, {}, {0, 2});
  CHECK(launched.launch.nproc == 2);
  CHECK(counted.count() == 0);
}
