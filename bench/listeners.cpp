// Sends the listening sockets of a live run what strangers could send, for any length of time: the run must neither end
// nor grow. ./dev bench listeners [--seconds N] [--seed S] [--hosts 1|2]: with two, the run's processes are in two
// network namespaces, and strangers in these and, from the first step on, in a third (needs root and ip(8)).
#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "bench/faults/hosts.hpp"
#include "bench/faults/listening_sockets.hpp"
#include "bench/faults/marked_processes.hpp"
#include "bench/faults/program_run.hpp"
#include "bench/fuzz/mutate.hpp"
#include "bench/result.hpp"

namespace {

namespace fs = std::filesystem;
using namespace pipetrain::bench;
using pipetrain::fuzz::Random;
using Clock = std::chrono::steady_clock;

constexpr std::size_t most_open = 200;  // connections at a time
constexpr double warm_up = 0.2;         // share of the time after which the run's memory is at its maximum
constexpr double most_growth = 16 << 20;

struct Options {
  double seconds = 60;
  std::uint64_t seed = 1;
  int hosts = 1;
};

[[noreturn]] void refuse(const std::string& what) {
  fmt::print(stderr, "listeners: error: {}\nusage: listeners [--seconds N] [--seed S] [--hosts 1|2]\n", what);
  std::exit(2);
}

Options parse(const std::vector<std::string>& words) {
  Options options;
  for (std::size_t i = 0; i < words.size(); i += 2) {
    std::uint64_t value = 0;
    if (i + 1 == words.size()) refuse(words[i] + " needs a value");
    const std::string& text = words[i + 1];
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) refuse(words[i] + " " + text + ": must be a whole number");
    if (words[i] == "--seconds") {
      options.seconds = static_cast<double>(value);
    } else if (words[i] == "--seed") {
      options.seed = value;
    } else if (words[i] == "--hosts" && (value == 1 || value == 2)) {
      options.hosts = static_cast<int>(value);
    } else {
      refuse(words[i] + " " + text + ": there is no such option or value");
    }
  }
  return options;
}

// The resources that the processes of the run use.
struct Usage {
  std::size_t processes = 0;
  double resident = 0;  // bytes
  double descriptors = 0;
};

Usage usage_of(const std::vector<pid_t>& processes) {
  Usage usage;
  for (const pid_t process : processes) {
    const fs::path folder = "/proc/" + std::to_string(process);
    std::ifstream statm(folder / "statm");
    double size = 0, resident = 0;
    if (!(statm >> size >> resident) || resident == 0) continue;  // 0: it has ended, but nobody has waited for it
    ++usage.processes;
    usage.resident += resident * static_cast<double>(::sysconf(_SC_PAGESIZE));
    std::error_code gone;
    for (fs::directory_iterator entry(folder / "fd", gone), end; !gone && entry != end; entry.increment(gone))
      ++usage.descriptors;
  }
  return usage;
}

// The beginnings of messages of UCX's TCP device and of the control plane.
const std::vector<std::string> dictionary = {std::string("\x78\x56\x34\x12\xbe\xba\xfe\xca", 8), std::string("\x1f\0\0\0\0", 5),
                                             std::string(4, '\0'), std::string(4, '\xff'), std::string("\x01\0\0\0", 4)};

std::vector<std::string> seeds() {
  std::vector<std::string> all = noises();
  all.push_back(dictionary[0]);
  for (const char kind : {'\0', '\1', '\2', '\3', '\x1f'})
    all.push_back(dictionary[0] + kind + std::string("\x20\0\0\0\x01\0\0\0", 8) + std::string(64, '\0'));
  return all;
}

class Stranger {
 public:
  explicit Stranger(std::uint64_t seed) : random_(seed), seeds_(seeds()) {}
  ~Stranger() {
    while (!open_.empty()) close_oldest();
  }

  void disturb(const std::vector<ListeningSocket>& sockets) {
    const std::string bytes = pipetrain::fuzz::mutated(random_, seeds_, dictionary);
    const std::size_t cut = random_.below(bytes.size() + 1);
    const int connection = shout(sockets[random_.below(sockets.size())], bytes.substr(0, cut));
    if (connection < 0) return;
    ++connections_;
    if (cut < bytes.size()) (void)!::send(connection, bytes.data() + cut, bytes.size() - cut, MSG_NOSIGNAL | MSG_DONTWAIT);
    open_.push_back(connection);
    while (open_.size() > most_open || (!open_.empty() && random_.one_in(2))) close_oldest();
  }
  std::uint64_t connections() const { return connections_; }

 private:
  void close_oldest() {
    const linger at_once{1, 0};
    if (random_.one_in(2)) (void)::setsockopt(open_.front(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);  // a reset
    ::close(open_.front());
    open_.pop_front();
  }

  Random random_;
  std::vector<std::string> seeds_;
  std::deque<int> open_;
  std::uint64_t connections_ = 0;
};

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

// A run of two processes, on one host or on two.
class AttackedRun {
 public:
  AttackedRun(const std::string& program, const Hosts* hosts, const fs::path& folder) {
    const std::string training =
        " --pp 2 --device cpu --threads 1 --seq-len 8 --layers 4 --steps 1000000000 --log-interval 1000000000";
    if (hosts == nullptr) {
      start(program + " launch --nproc 2" + training, folder / "err");
    } else {
      for (const int host : {0, 1})
        start(fmt::format("ip netns exec {} {} launch --nproc 1 --nnodes 2 --node-rank {} --master {}:29500{}",
                          hosts->name(host), program, host, hosts->address(0), training),
              folder / fmt::format("err{}", host));
    }
    while (launches_.front()->err().find("step 1/") == std::string::npos) {
      if (!running()) refuse("the run does not begin: " + words());
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    processes_ = mark_.processes();
  }

  const std::vector<pid_t>& processes() const { return processes_; }
  bool running() {
    return std::all_of(launches_.begin(), launches_.end(), [](const auto& launch) { return launch->running(); });
  }
  std::vector<ListeningSocket> sockets() const {
    std::vector<ListeningSocket> all;
    for (const pid_t process : processes_)
      for (const ListeningSocket& socket : listening_sockets(process)) all.push_back(socket);
    return all;
  }
  // Returns true if it stops when asked to.
  bool end() {
    mark_.signal(0, SIGTERM);
    bool stopped = true;
    for (const auto& launch : launches_) stopped &= launch->wait(std::chrono::seconds(20)) == 143;
    if (!stopped) fmt::print(stderr, "listeners: the run did not stop as asked: {}\n", words());
    return stopped;
  }

 private:
  void start(const std::string& command, const fs::path& err) {
    launches_.push_back(std::make_unique<ProgramRun>(
        words_of(command), std::vector<std::string>{mark_.variable(), "PIPETRAIN_TOKEN=a-token-of-a-benchmark"}, err));
  }
  std::string words() const {
    std::string all;
    for (const auto& launch : launches_) all += launch->err();
    return all;
  }

  const ProcessMark mark_;
  std::vector<std::unique_ptr<ProgramRun>> launches_;
  std::vector<pid_t> processes_;
};

// A stranger on a thread of its own.
class StrangerThread {
 public:
  struct Origin {
    std::string name;  // of a network namespace; empty: this one
    // UCX's sockets accept connections from the run's own hosts until its processes are connected; only then may a
    // stranger come from there.
    bool of_run = true;
  };
  StrangerThread(std::uint64_t seed, Origin origin, const std::vector<ListeningSocket>& sockets)
      : thread_([=, this] {
          if (enter(origin.name)) disturb(seed, origin.of_run, sockets);
        }) {}
  ~StrangerThread() { end(); }
  StrangerThread(const StrangerThread&) = delete;
  StrangerThread& operator=(const StrangerThread&) = delete;

  void end() {
    ends_ = true;
    if (thread_.joinable()) thread_.join();
  }
  // Valid after end().
  std::uint64_t connections() const { return connections_; }
  std::size_t sockets() const { return reached_; }

 private:
  static bool enter(const std::string& name) {
    if (name.empty()) return true;
    const int handle = ::open(("/run/netns/" + name).c_str(), O_RDONLY | O_CLOEXEC);
    const bool inside = handle >= 0 && ::setns(handle, CLONE_NEWNET) == 0;
    ::close(handle);
    return inside;
  }

  void disturb(std::uint64_t seed, bool of_run, std::vector<ListeningSocket> sockets) {
    constexpr std::chrono::seconds connected{5};
    if (of_run) {
      std::this_thread::sleep_for(connected);
      std::erase_if(sockets, [](const ListeningSocket& socket) { return !takes_connections(socket); });
    }
    reached_ = static_cast<std::size_t>(std::count_if(sockets.begin(), sockets.end(), takes_connections));
    Stranger stranger(seed);
    while (!ends_ && !sockets.empty()) stranger.disturb(sockets);
    connections_ = stranger.connections();
  }

  std::atomic<bool> ends_ = false;
  std::uint64_t connections_ = 0;
  std::size_t reached_ = 0;
  std::thread thread_;
};

// The run's most resources during warm-up, and those at the end.
struct Growth {
  Usage warm, last;
};

Growth watch(AttackedRun& run, double seconds) {
  const auto start = Clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  Growth growth;
  while (elapsed() < seconds && run.running()) {
    std::this_thread::sleep_for(std::chrono::seconds(1));
    growth.last = usage_of(run.processes());
    if (elapsed() >= warm_up * seconds && growth.warm.processes > 0) continue;
    growth.warm.processes = growth.last.processes;
    growth.warm.resident = std::max(growth.warm.resident, growth.last.resident);
    growth.warm.descriptors = std::max(growth.warm.descriptors, growth.last.descriptors);
  }
  return growth;
}

bool attack(const Options& options, const std::string& program, const fs::path& folder) {
  std::unique_ptr<Hosts> hosts;
  if (options.hosts > 1) hosts = std::make_unique<Hosts>(options.hosts + 1);  // one of strangers alone
  if (hosts && !hosts->made()) refuse("--hosts 2 needs root, and ip netns");
  AttackedRun run(program, hosts.get(), folder);
  std::vector<StrangerThread::Origin> origins(1);
  if (hosts) origins = {{hosts->name(0), true}, {hosts->name(1), true}, {hosts->name(2), false}};
  const auto sockets = run.sockets();
  std::vector<std::unique_ptr<StrangerThread>> strangers;
  for (const auto& origin : origins)
    strangers.push_back(std::make_unique<StrangerThread>(options.seed + strangers.size(), origin, sockets));
  const Growth growth = watch(run, options.seconds);
  std::uint64_t connections = 0;
  std::size_t reached = std::size_t(-1);
  for (const auto& stranger : strangers) {
    stranger->end();
    connections += stranger->connections();
    reached = std::min(reached, stranger->sockets());
  }
  const bool ran_on = run.running() && growth.last.processes == run.processes().size();
  const bool stopped = run.end();
  bool pass =
      report("listeners sockets that every stranger reached", static_cast<double>(reached), "sockets", Limit::at_least, 1);
  pass &= report("listeners connections", static_cast<double>(connections), "connections", Limit::at_least, 1);
  pass &= report("listeners runs that ended", ran_on && stopped ? 0 : 1, "runs", Limit::at_most, 0);
  pass &=
      report("listeners growth of memory", growth.last.resident - growth.warm.resident, "bytes", Limit::at_most, most_growth);
  pass &=
      report("listeners growth of open files", growth.last.descriptors - growth.warm.descriptors, "files", Limit::at_most, 64);
  return pass;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse({argv + 1, argv + argc});
  const char* program = std::getenv("BENCH_PROGRAM");
  if (program == nullptr) refuse("BENCH_PROGRAM names no program: start it by ./dev bench listeners");
  std::string folder = (fs::temp_directory_path() / "pipetrain-listeners-XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) refuse("no folder can be made at " + folder);
  const bool pass = attack(options, program, folder);
  fs::remove_all(folder);
  return pass ? 0 : 1;
}
