// Measures training of two replicas on two hosts over slow links, with gradients in fp32 and in few bits: the bytes that a
// host sends in a step, counted by its network interface with all headers, and the seconds of a step. Hosts are network
// namespaces of this one (needs root, ip(8) and tc(8)). ./dev bench wire [hosts] [MBIT_PER_SECOND...]
// With `hosts` there are two replicas on each, which gradients in few bits cross alone.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "bench/faults/hosts.hpp"
#include "bench/faults/program_run.hpp"
#include "bench/result.hpp"
#include "records/metrics_reader.hpp"

namespace {

namespace fs = std::filesystem;
using namespace pipetrain;
using namespace pipetrain::bench;

struct Way {
  const char* name;
  const char* options;
  double most_bytes;       // limit: the share of fp32's bytes
  double most_of_run = 0;  // the same, of the whole run; where it is given, second moments settle

  // Returns the steps before those that are counted. Second moments change for two thirds of a run.
  int warm_up(int counted) const { return most_of_run > 0 ? 2 * counted + 2 : 1; }
};
// Without a memory of earlier gradients second moments settle as soon as they may, since clipping makes all norms equal.
constexpr Way ways[] = {{"fp32", "", 0},
                        {"int8", "--compress-gradients int8", 1 / 3.8},
                        {"1bit after its warm-up", "--compress-gradients 1bit --beta2 0", 1.0 / 25, 1.0 / 5}};
// A host then sends about half as much as if each of its two replicas sent its own.
constexpr Way ways_of_hosts[] = {
    {"fp32", "", 0},
    {"int8 between hosts", "--compress-gradients int8 --compress-hosts 2", 1 / 3.8},
    {"1bit between hosts after its warm-up", "--compress-gradients 1bit --compress-hosts 2 --beta2 0", 1.0 / 25, 1.0 / 5}};

// Few tokens a step make the exchange most of it, as on a fast device.
struct Work {
  std::string name, options;
  std::vector<Way> ways;
};
Work work_of(bool by_hosts) {
  const std::string rest = " --microbatches 1 --seq-len 32 --device cpu --threads 1 --transport ucx --log-interval 1000";
  if (by_hosts)
    return {"gpt2 of 2 layers, dp 4",
            "--model gpt2 --layers 2 --dp 4" + rest,
            {std::begin(ways_of_hosts), std::end(ways_of_hosts)}};
  return {"gpt2 dp 2", "--model gpt2 --dp 2" + rest, {std::begin(ways), std::end(ways)}};
}

struct Link {
  int megabits;
  int steps;             // that are counted
  double least_speedup;  // limit: of both codes
};

// Slower links take fewer steps.
Link link_of(int megabits) {
  const double speedup = megabits <= 100 ? 3 : megabits <= 1000 ? 2 : 0;
  return {megabits, megabits < 1000 ? 2 : 5, speedup};
}

struct Measured {
  double seconds = 0, bytes = 0;  // of a step; what host 0 sends
  double run_bytes = 0;           // the same, of all steps but the first, before which hosts also connect
};

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), {}};
}

class Run {
 public:
  Run(const std::string& program, const Hosts& hosts, const std::string& options, int steps, const fs::path& folder)
      : hosts_(hosts), metrics_(folder / "metrics.jsonl") {
    fs::remove(metrics_);
    for (const int host : {0, 1}) {
      const std::string more = host == 0 ? " --metrics " + metrics_.string() : "";
      launches_.push_back(std::make_unique<ProgramRun>(
          words_of(
              fmt::format("ip netns exec {} {} launch --nproc 1 --nnodes 2 --node-rank {} --master {}:29500 {} --steps {}{}",
                          hosts.name(host), program, host, hosts.address(0), options, steps, more)),
          std::vector<std::string>{"PIPETRAIN_TOKEN=a-token-of-a-benchmark", "UCX_TLS=tcp,self"},
          folder / fmt::format("err{}", host)));
    }
  }

  // The exchange is at a step's end, and the next one begins after its forward, so that counting when the line of a step
  // is found counts no byte of the next step.
  Measured measure(int warm_up, int steps) {
    const double first = sent_at(1), before = sent_at(warm_up);
    const double after = sent_at(warm_up + steps);
    for (const auto& launch : launches_)
      if (launch->wait(std::chrono::minutes(2)) != 0) throw std::runtime_error(launch->err());
    Measured measured{.bytes = (after - before) / steps, .run_bytes = (after - first) / (warm_up + steps - 1)};
    std::vector<double> seconds;
    for (const StepMetrics& step : read_metrics(metrics_))
      if (step.step > warm_up) seconds.push_back(step.seconds);
    std::nth_element(seconds.begin(), seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2), seconds.end());
    measured.seconds = seconds[seconds.size() / 2];
    return measured;
  }

 private:
  // Returns the bytes that host 0 has sent when the run has done this many steps.
  double sent_at(int steps) {
    while (done() < steps) {
      for (const auto& launch : launches_)
        if (launch->wait(std::chrono::milliseconds(0)).value_or(0) != 0) throw std::runtime_error(launch->err());
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return hosts_.sent(0);
  }
  std::int64_t done() {
    if (!fs::exists(metrics_)) return 0;
    if (!reader_) reader_.emplace(metrics_);
    reader_->read();
    return reader_->steps().empty() ? 0 : reader_->steps().back().step;
  }

  const Hosts& hosts_;
  fs::path metrics_;
  std::optional<MetricsReader> reader_;
  std::vector<std::unique_ptr<ProgramRun>> launches_;
};

bool compare(const std::string& program, const Hosts& hosts, const Work& work, const Link& link, const fs::path& folder) {
  for (const int host : {0, 1})
    if (!hosts.limit(host, link.megabits))
      throw std::runtime_error("tc cannot limit the rate of a link; it needs root and iproute2");
  Measured plain;
  bool pass = true;
  for (const Way& way : work.ways) {
    const std::string name = fmt::format("wire {}, {} Mbit/s, {}", work.name, link.megabits, way.name);
    const int warm_up = way.warm_up(link.steps);
    Run run(program, hosts, work.options + " " + way.options, warm_up + link.steps, folder);
    const Measured measured = run.measure(warm_up, link.steps);
    report(name, measured.seconds, "s/step");
    report(name + " sent", measured.bytes / 1e6, "MB/step");
    if (way.most_bytes == 0) {
      plain = measured;
      continue;
    }
    pass &= report(name + ": bytes of fp32's", measured.bytes / plain.bytes, "", Limit::at_most, way.most_bytes);
    if (way.most_of_run > 0)
      pass &=
          report(name + ": bytes of fp32's, of the run", measured.run_bytes / plain.bytes, "", Limit::at_most, way.most_of_run);
    pass &= report(name + ": speed of fp32's", plain.seconds / measured.seconds, "x",
                   link.least_speedup > 0 ? Limit::at_least : Limit::none, link.least_speedup);
  }
  return pass;
}

}  // namespace

int main(int count, char** words) {
  std::vector<Link> links;
  const bool by_hosts = count > 1 && std::string(words[1]) == "hosts";
  for (int i = by_hosts ? 2 : 1; i < count; ++i) links.push_back(link_of(std::atoi(words[i])));
  if (links.empty()) links = {link_of(100), link_of(1000)};
  if (std::any_of(links.begin(), links.end(), [](const Link& link) { return link.megabits < 1; })) {
    fmt::print(stderr, "wire: error: a rate must be a whole number of megabits a second\n");
    return 2;
  }
  const char* given = std::getenv("BENCH_PROGRAM");
  const std::string program = fs::absolute(given ? fs::path(given) : fs::path(words[0]).parent_path() / "pipetrain").string();
  const Hosts hosts(2);
  if (!hosts.made()) {
    fmt::print(stderr, "wire: error: hosts cannot be made; this needs root and ip netns\n");
    return 2;
  }
  const fs::path folder = fs::temp_directory_path() / fmt::format("pipetrain-bench-wire-{}", ::getpid());
  fs::create_directories(folder);
  bool pass = true;
  try {
    for (const Link& link : links) pass &= compare(program, hosts, work_of(by_hosts), link, folder);
  } catch (const std::exception& error) {
    fmt::print(stderr, "wire: error: {}\n", error.what());
    pass = false;
  }
  fs::remove_all(folder);
  return pass ? 0 : 1;
}
