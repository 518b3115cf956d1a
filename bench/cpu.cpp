// Compares training on the CPU with the machine's limits: a Llama of hidden 512 with 8 layers, sequences of 512, microbatches
// of 4, on two threads. Every round measures the matrix rate, one stage, two stages and the peer one after the other, so that
// other load on the machine affects all of them; ratios are computed within a round and their medians reported.
//
// bench_cpu [ROUNDS]   (5)
//
// PIPETRAIN_TORCH_PYTHON names a Python that has PyTorch, for the comparison with it; PIPETRAIN_TORCH_SCRIPT names the peer's
// script, if it is not bench/peers/torch_cpu.py of the sources; PIPETRAIN_TORCH_COMPILE=1 makes the peer compile its model.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <sstream>
#include <vector>

#include "actors/training/run/trainer.hpp"
#include "bench/child_process.hpp"
#include "bench/matrix_rate.hpp"
#include "bench/result.hpp"
#include "core/error.hpp"
#include "model/costs.hpp"
#include "model/weights/weights.hpp"

namespace pipetrain::bench {
namespace {

constexpr int threads = 2, microbatch = 4, microbatches = 4;
constexpr std::int64_t sequence = 512;

ModelConfig model() {
  ModelConfig config;
  config.hidden = 512;
  config.layers = 8;
  config.heads = config.kv_heads = 8;
  config.head_dim = 64;
  config.intermediate = 1376;
  config.vocabulary = 32000;
  config.max_positions = sequence;
  return config;
}

TrainJob job(int pp) {
  TrainJob job;
  job.config = model();
  job.initial.weights = random_weights(job.config, 0);
  DatasetOptions data;
  data.sequence_length = sequence;
  data.vocabulary = job.config.vocabulary;
  job.dataset = open_dataset(data);
  job.layout.pp = pp;
  job.devices.threads = threads / pp;
  job.batch.microbatches = microbatches;
  job.batch.microbatch = microbatch;
  job.optimizer.weight_decay = 0.1F;
  job.learning_rate.peak = 3e-4;
  return job;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Returns a line of /proc/self/status, in bytes.
double process_memory(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    double kibibytes = 0;
    if (word == key + ":" && status >> kibibytes) return kibibytes * 1024;
  }
  return std::nan("");
}

// Seconds of one training step, and processor seconds of all its threads.
struct Spent {
  double wall = 0, processor = 0;
};

// The peer's script as a process of its own; absent if it was not asked for.
class Peer {
 public:
  Peer() {
    const char *python = std::getenv("PIPETRAIN_TORCH_PYTHON"), *script = std::getenv("PIPETRAIN_TORCH_SCRIPT");
    if (python == nullptr) {
      fmt::print(stderr,
                 "bench cpu: PIPETRAIN_TORCH_PYTHON names no Python with PyTorch: the comparison with it was not run\n");
      return;
    }
    const ModelConfig config = model();
    const char* compile = std::getenv("PIPETRAIN_TORCH_COMPILE");
    const std::string sizes = fmt::format(
        R"({{"hidden":{},"layers":{},"heads":{},"intermediate":{},"vocabulary":{},"sequence":{},"microbatch":{},"microbatches":{},)"
        R"("threads":{},"compile":{}}})",
        config.hidden, config.layers, config.heads, config.intermediate, config.vocabulary, sequence, microbatch, microbatches,
        threads, compile != nullptr && std::string(compile) == "1");
    process_ = std::make_unique<ChildProcess>(
        std::vector<std::string>{python, script == nullptr ? PIPETRAIN_PEERS "/torch_cpu.py" : script, sizes});
    const auto ready = process_->read_line();
    if (!ready) throw Error(ErrorKind::unavailable, std::string("bench cpu: ") + python + " cannot run the PyTorch peer");
    fmt::print(stderr, "bench cpu: PyTorch is {}\n", *ready);
  }

  bool runs() const { return process_ != nullptr; }
  Spent step() {
    process_->write_line("step");
    Spent spent;
    if (!(std::istringstream(process_->read_line().value_or("")) >> spent.wall >> spent.processor)) {
      throw Error(ErrorKind::unavailable, "bench cpu: the PyTorch peer has ended");
    }
    return spent;
  }

 private:
  std::unique_ptr<ChildProcess> process_;
};

// Call it before other code has touched memory: compares the peak beyond the program's own memory with the memory that
// the job must hold.
bool report_memory(double base, const Trainer& trainer) {
  const MemoryUse use = trainer.memory().at(0).use;
  const auto needed = static_cast<double>(use.parameters + use.gradients + use.optimizer + use.activations);
  report("cpu memory needed", needed / 1e6, "MB");
  return report("cpu peak memory ratio", (process_memory("VmHWM") - base) / needed, "ratio", Limit::at_most, 1.15);
}

Rate best_matrix_rate(const std::vector<MatrixLibrary>& libraries) {
  Rate best;
  for (const MatrixLibrary& library : libraries) {
    const Rate rate = matrix_rate(library, threads);
    best = {std::max(best.wall, rate.wall), std::max(best.processor, rate.processor)};
  }
  return best;
}

Spent step(Trainer& trainer, StepReport& report) {
  const double processor = processor_seconds();
  report = trainer.step();
  return {report.seconds, processor_seconds() - processor};
}

struct Rounds {
  std::vector<double> rate, one_stage, share, two_stages, bubble, torch, torch_ratio;
  std::vector<double> processor_share, processor_torch_ratio;
};

void run_round(const std::vector<MatrixLibrary>& libraries, Trainer& one, Trainer& two, Peer& peer, Rounds& rounds) {
  StepReport single, pair;
  const Rate before = best_matrix_rate(libraries);
  const Spent spent = step(one, single);
  const Rate after = best_matrix_rate(libraries);
  step(two, pair);
  const auto tokens = static_cast<double>(single.tokens);
  const double gflop = 1e-9 * tokens * model_flops_per_token(model(), sequence);
  rounds.rate.push_back((before.wall + after.wall) / 2);
  rounds.one_stage.push_back(tokens / spent.wall);
  rounds.share.push_back(gflop / spent.wall / ((before.wall + after.wall) / 2));
  rounds.processor_share.push_back(gflop * threads / spent.processor / ((before.processor + after.processor) / 2));
  // The bubble that 1F1B has even with equal stages is subtracted; the cost of unequal stages, messages and waiting is not.
  const double ideal_bubble = 1.0 / (microbatches + 1);
  rounds.two_stages.push_back(single.seconds / (pair.seconds * (1 - ideal_bubble)));
  rounds.bubble.push_back(pair.bubble);
  if (!peer.runs()) return;
  const Spent peers = peer.step();
  rounds.torch.push_back(tokens / peers.wall);
  rounds.torch_ratio.push_back(peers.wall / spent.wall);
  rounds.processor_torch_ratio.push_back(peers.processor / spent.processor);
}

bool report_rounds(const std::string& name, const std::vector<double>& values, const std::string& unit,
                   Limit kind = Limit::none, double limit = 0) {
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  fmt::print(stderr, "bench cpu: {}: {:.4g} to {:.4g} over {} rounds\n", name, *least, *most, values.size());
  return report(name, median(values), unit, kind, limit);
}

bool run(int count) {
  const double base = process_memory("VmRSS");
  Trainer one(job(1));
  for (int step = 0; step < 2; ++step) one.step();
  bool pass = report_memory(base, one);

  Trainer two(job(2));
  two.step();
  Peer peer;
  const auto libraries = matrix_libraries();
  Rounds rounds;
  for (int round = 0; round < count; ++round) run_round(libraries, one, two, peer, rounds);

  report_rounds("cpu sgemm 1024, 2 threads", rounds.rate, "GFLOP/s");
  report_rounds("cpu pp=1 throughput", rounds.one_stage, "tokens/s");
  pass &= report_rounds("cpu pp=1 share of sgemm", rounds.share, "ratio", Limit::at_least, 0.6);
  report_rounds("cpu pp=1 share of sgemm, by processor time", rounds.processor_share, "ratio");
  report_rounds("cpu pp=2 bubble", rounds.bubble, "share");
  pass &= report_rounds("cpu pp=2 over pp=1 without the bubble", rounds.two_stages, "ratio", Limit::at_least, 0.9);
  if (peer.runs()) {
    report_rounds("cpu torch throughput", rounds.torch, "tokens/s");
    pass &= report_rounds("cpu torch ratio", rounds.torch_ratio, "ratio", Limit::at_least, 1.0);
    report_rounds("cpu torch ratio, by processor time", rounds.processor_torch_ratio, "ratio");
  }
  return pass;
}

}  // namespace
}  // namespace pipetrain::bench

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 5;
  if (argc > 2 || rounds < 1) {
    fmt::print(stderr, "usage: bench_cpu [ROUNDS]\n");
    return 2;
  }
  try {
    return pipetrain::bench::run(rounds) ? 0 : 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
