// Compares ranks that share one long sequence (--cp) with one rank that has all of it: on as many GPUs as ranks the
// speed, on fewer the cost of the ring's attention against that of a whole sequence. See bench/README.md.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "actors/training/run/trainer.hpp"
#include "bench/result.hpp"
#include "core/device.hpp"
#include "core/error.hpp"
#include "data/open_dataset.hpp"
#include "model/config/config.hpp"
#include "model/weights/weights.hpp"

using namespace pipetrain;

namespace {

struct Work {
  std::int64_t sequence = 32768;
  int layers = 4, ranks = 2;
};

// The driver reads this at its first call: a stream must not queue after another rank's stream that waits for it.
void allow_many_queues() { setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0); }

TrainJob job_of(const Work& work, int ranks, int gpus) {
  TrainJob job;
  job.config = preset_config("llama3.2-1b");
  job.config.layers = work.layers;
  job.initial.weights = random_weights(job.config, 7);
  DatasetOptions data;
  data.sequence_length = work.sequence;
  data.vocabulary = job.config.vocabulary;
  job.dataset = open_dataset(data);
  job.batch = {1, 2, 1};
  job.layout.cp = ranks;
  job.devices.kind = DeviceKind::cuda;
  for (int rank = 0; rank < ranks; ++rank) job.devices.gpus.push_back(rank % gpus);
  job.numerics.precision = Precision::bf16();
  job.learning_rate.peak = 1e-5;
  return job;
}

struct Measured {
  double seconds = 0;  // the median of steps
  double loss = 0;     // of the first step
};

Measured measure(const Work& work, int ranks, int gpus) {
  constexpr int warm_up = 2, steps = 5;
  Trainer trainer(job_of(work, ranks, gpus));
  Measured measured;
  std::vector<double> seconds;
  for (int step = 0; step < warm_up + steps; ++step) {
    const StepReport report = trainer.step();
    if (step == 0) measured.loss = report.loss;
    if (step >= warm_up) seconds.push_back(report.seconds);
  }
  std::sort(seconds.begin(), seconds.end());
  measured.seconds = seconds[seconds.size() / 2];
  const double tokens = 2 * static_cast<double>(work.sequence);
  fmt::print(stderr, "cp {}: {:.4f} s a step ({:.4f} to {:.4f}), {:.0f} tokens/s, first loss {:.6f}\n", ranks, measured.seconds,
             seconds.front(), seconds.back(), tokens / measured.seconds, measured.loss);
  return measured;
}

int run(const Work& work) {
  const int gpus = cuda_device_count();
  if (gpus < 1) throw Error(ErrorKind::unavailable, "it needs a GPU");
  const Measured one = measure(work, 1, 1), shared = measure(work, work.ranks, std::min(gpus, work.ranks));
  const std::string name =
      fmt::format("Llama-3.2-1B cut to {} layers, sequence {}, cp {}", work.layers, work.sequence, work.ranks);
  bool pass = bench::report(name + ": first loss beside one rank's", std::abs(shared.loss / one.loss - 1), "relative",
                            bench::Limit::at_most, 1e-3);
  if (gpus >= work.ranks) {
    pass &= bench::report(name + ": speed beside one GPU", one.seconds / shared.seconds, "ratio", bench::Limit::at_least,
                          0.9 * work.ranks);
  } else {
    bench::report(fmt::format("{} on {} GPU: time of a step beside cp 1's", name, gpus), shared.seconds / one.seconds, "ratio");
    fmt::print(stderr, "the speed is not measured: it needs {} GPUs\n", work.ranks);
  }
  return pass ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    allow_many_queues();
    Work work;
    if (argc > 1) work.sequence = std::atoll(argv[1]);
    if (argc > 2) work.layers = std::atoi(argv[2]);
    if (argc > 3) work.ranks = std::atoi(argv[3]);
    if (work.sequence < 1 || work.layers < 1 || work.ranks < 2)
      throw Error(ErrorKind::input, "usage: bench_gpu_context [SEQUENCE [LAYERS [RANKS, 2 or more]]]");
    return run(work);
  } catch (const Error& error) {
    fmt::print(stderr, "bench_gpu_context: error: {}\n", error.what());
    return exit_status(error.kind());
  }
}
