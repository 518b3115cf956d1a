// Feeds the listening sockets of a live run with what strangers could send, for as long as one likes: the run must neither end
// nor grow. ./dev bench listeners [--seconds N] [--seed S]
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

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
constexpr double warm_up = 0.2;         // of the time: what the run needs at most is known after it
constexpr double most_growth = 16 << 20;

struct Options {
  double seconds = 60;
  std::uint64_t seed = 1;
};

[[noreturn]] void refuse(const std::string& what) {
  fmt::print(stderr, "listeners: error: {}\nusage: listeners [--seconds N] [--seed S]\n", what);
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
    } else {
      refuse(words[i] + ": unknown option");
    }
  }
  return options;
}

// What the processes of the run take.
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
    if (!(statm >> size >> resident) || resident == 0) continue;  // 0: it has ended, and nobody has waited for it
    ++usage.processes;
    usage.resident += resident * static_cast<double>(::sysconf(_SC_PAGESIZE));
    std::error_code gone;
    for (fs::directory_iterator entry(folder / "fd", gone), end; !gone && entry != end; entry.increment(gone))
      ++usage.descriptors;
  }
  return usage;
}

// How the messages of UCX's TCP device begin, and of the control plane.
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
    ++connections;
    if (cut < bytes.size()) (void)!::send(connection, bytes.data() + cut, bytes.size() - cut, MSG_NOSIGNAL | MSG_DONTWAIT);
    open_.push_back(connection);
    while (open_.size() > most_open || (!open_.empty() && random_.one_in(2))) close_oldest();
  }
  std::uint64_t connections = 0;

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
};

std::vector<ListeningSocket> sockets_of(const std::vector<pid_t>& processes) {
  std::vector<ListeningSocket> all;
  for (const pid_t process : processes)
    for (const ListeningSocket& socket : listening_sockets(process)) all.push_back(socket);
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse({argv + 1, argv + argc});
  const char* program = std::getenv("BENCH_PROGRAM");
  if (program == nullptr) refuse("BENCH_PROGRAM names no program: start it by ./dev bench listeners");
  std::string folder = (fs::temp_directory_path() / "pipetrain-listeners-XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) refuse("no folder can be made at " + folder);
  const fs::path err = fs::path(folder) / "err";
  const ProcessMark mark;
  const std::string words =
      "launch --nproc 2 --pp 2 --device cpu --threads 1 --seq-len 8 --layers 4 --steps 1000000000 --log-interval 1000000000";
  std::vector<std::string> command{program};
  for (std::size_t begin = 0; begin < words.size();) {
    const std::size_t end = std::min(words.find(' ', begin), words.size());
    command.push_back(words.substr(begin, end - begin));
    begin = end + 1;
  }
  ProgramRun run(command, {mark.variable()}, err);
  while (run.err().find("step 1/") == std::string::npos) {
    if (run.wait(std::chrono::milliseconds(20))) refuse("the run does not begin: " + run.err());
  }
  const auto processes = mark.processes();
  const auto sockets = sockets_of(processes);
  Stranger stranger(options.seed);
  const auto start = Clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  Usage warm, last;
  double looked = 0;
  while (elapsed() < options.seconds && run.running()) {
    for (int i = 0; i < 50; ++i) stranger.disturb(sockets);
    if (elapsed() < looked + 1) continue;
    looked = elapsed();
    last = usage_of(processes);
    if (looked < warm_up * options.seconds || warm.processes == 0) {
      warm.processes = last.processes;
      warm.resident = std::max(warm.resident, last.resident);
      warm.descriptors = std::max(warm.descriptors, last.descriptors);
    }
  }
  const bool ran_on = run.running() && last.processes == processes.size();
  mark.signal(0, SIGTERM);
  const int status = run.wait(std::chrono::seconds(20)).value_or(-1);
  if (status != 143) fmt::print(stderr, "listeners: the run ended with status {}: {}\n", status, run.err());
  bool pass = report("listeners sockets", static_cast<double>(sockets.size()), "sockets", Limit::at_least, 1);
  pass &= report("listeners connections", static_cast<double>(stranger.connections), "connections", Limit::at_least, 1);
  pass &= report("listeners runs that ended", ran_on && status == 143 ? 0 : 1, "runs", Limit::at_most, 0);
  pass &= report("listeners growth of memory", last.resident - warm.resident, "bytes", Limit::at_most, most_growth);
  pass &= report("listeners growth of open files", last.descriptors - warm.descriptors, "files", Limit::at_most, 64);
  fs::remove_all(folder);
  return pass ? 0 : 1;
}
