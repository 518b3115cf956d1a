// Runs on GPUs whose states are offloaded give the bits of runs whose states are on the GPUs.
#include <filesystem>
#include <vector>

#include "actors/cuda/gpu_job.hpp"
#include "actors/golden_run.hpp"
#include "catch.hpp"
#include "core/error.hpp"
#include "files/direct_file.hpp"
#include "model/config/mode_names.hpp"
#include "skip.hpp"

using namespace pipetrain;
using namespace pipetrain::test;

namespace {

// Host memory, and a disk if this machine has one with direct I/O.
std::vector<std::filesystem::path> offload_folders() {
  const std::filesystem::path disk = std::filesystem::temp_directory_path();
  try {
    const DirectFile probe(disk, DirectFile::alignment);
  } catch (const Error& error) {
    skip(error.what());
    return {{}};
  }
  return {{}, disk};
}

}  // namespace

TEST_CASE("optimizer states in host memory or on a disk give the bits of states on GPUs, with every stage of ZeRO", "[gpu]") {
  for (const Precision& precision : {Precision::fp32(), Precision::bf16(), Precision::fp16()}) {
    for (Layout layout : {Layout{1, 1, 1, 2}, Layout{2, 1, 1, 2, "zb-h1"}, Layout{1, 1, 2, 2}}) {
      ModelConfig config = half_config();
      config.vocabulary = 4100;
      for (layout.zero = 0; layout.zero <= (layout.dp > 1 ? most_zero_stages : 0); ++layout.zero) {
        TrainJob plain = random_job(config, 128, 8, layout);
        if (!on_gpus(plain, 1, precision)) return;
        const RunRecord expected = run(std::move(plain), 4);
        for (const std::filesystem::path& folder : offload_folders()) {
          TrainJob offloaded = random_job(config, 128, 8, layout);
          on_gpus(offloaded, 1, precision);
          offloaded.offload = {.optimizer = true, .optimizer_fraction = layout.zero % 2 == 1 ? 0.5 : 1, .folder = folder};
          INFO(to_string(layout) << ", " << numbers_name(precision) << ", folder " << folder);
          CHECK((run(std::move(offloaded), 4) == expected));
        }
      }
    }
  }
}

TEST_CASE("a share of the optimizer's states in host memory or on a disk gives the bits of states on GPUs", "[gpu]") {
  for (const Precision& precision : {Precision::fp32(), Precision::bf16()}) {
    TrainJob plain = random_job(half_config(), 128, 8, {1, 1, 1, 2});
    if (!on_gpus(plain, 1, precision)) return;
    const RunRecord expected = run(std::move(plain), 4);
    for (const std::filesystem::path& folder : offload_folders()) {
      for (const double fraction : {0.25, 0.5, 0.75}) {
        for (const bool parameters : {false, true}) {
          TrainJob offloaded = random_job(half_config(), 128, 8, {1, 1, 1, 2});
          on_gpus(offloaded, 1, precision);
          offloaded.offload = {.optimizer = true, .optimizer_fraction = fraction, .parameters = parameters, .folder = folder};
          INFO(numbers_name(precision) << ", fraction " << fraction << ", folder " << folder);
          CHECK((run(std::move(offloaded), 4) == expected));
        }
      }
    }
  }
}

TEST_CASE("weights in host memory or on a disk give the bits of weights on GPUs", "[gpu]") {
  for (const Precision& precision : {Precision::fp32(), Precision::bf16(), Precision::fp16(), Precision::fp8()}) {
    if (!computes(precision)) continue;
    for (Layout layout : {Layout{1, 1, 1, 2}, Layout{2, 1, 1, 2, "zb-h1"}, Layout{2, 2, 1, 2, "zb-v", 2}, Layout{1, 1, 2, 2}}) {
      ModelConfig config = half_config();
      config.tied_embeddings = layout.pp == 2;
      TrainJob plain = random_job(config, 128, 8, layout);
      if (!on_gpus(plain, 1, precision)) return;
      const RunRecord expected = run(std::move(plain), 4);
      for (const std::filesystem::path& folder : offload_folders()) {
        for (const bool optimizer : {false, true}) {
          layout.prefetch = optimizer ? 1 : 2;
          TrainJob offloaded = random_job(config, 128, 8, layout);
          on_gpus(offloaded, 1, precision);
          offloaded.offload = {.optimizer = optimizer, .parameters = true, .folder = folder};
          INFO(to_string(layout) << ", " << precision_name(precision) << ", folder " << folder);
          CHECK((run(std::move(offloaded), 4) == expected));
        }
      }
    }
  }
}

TEST_CASE("runs of weights that replicas divide, in host memory or on a disk, give the bits of weights on GPUs", "[gpu]") {
  for (const Precision& precision : {Precision::fp32(), Precision::bf16(), Precision::fp8()}) {
    if (!computes(precision)) continue;
    for (Layout layout : {Layout{1, 1, 2, 2}, Layout{2, 1, 2, 1, "zb-v", 2}}) {
      for (const int gpus : {1, 2}) {
        layout.zero = 0;
        TrainJob plain = random_job(half_config(), 128, 8, layout);
        if (!on_gpus(plain, gpus, precision)) continue;
        const RunRecord expected = run(std::move(plain), 4);
        for (layout.zero = 1; layout.zero <= most_zero_stages; ++layout.zero) {
          for (const std::filesystem::path& folder : offload_folders()) {
            TrainJob offloaded = random_job(half_config(), 128, 8, layout);
            on_gpus(offloaded, gpus, precision);
            offloaded.offload = {.optimizer = layout.zero != 2, .parameters = true, .folder = folder};
            INFO(to_string(layout) << ", " << numbers_name(precision) << ", " << gpus << " GPUs, folder " << folder);
            CHECK((run(std::move(offloaded), 4) == expected));
          }
        }
      }
    }
  }
}

TEST_CASE("replicas add gradients up that lie in host memory or on a disk, to the bits of gradients on GPUs", "[gpu]") {
  for (const Precision& precision : {Precision::fp32(), Precision::bf16()}) {
    for (Layout layout : {Layout{1, 1, 2, 2}, Layout{1, 1, 2, 4}, Layout{2, 1, 2, 1, "zb-v", 2}}) {
      for (const int gpus : {1, 2}) {
        layout.zero = 0;
        TrainJob plain = random_job(half_config(), 128, 8, layout);
        if (!on_gpus(plain, gpus, precision)) continue;
        const RunRecord expected = run(std::move(plain), 4);
        for (layout.zero = 0; layout.zero <= most_zero_stages; ++layout.zero) {
          for (const std::filesystem::path& folder : offload_folders()) {
            TrainJob offloaded = random_job(half_config(), 128, 8, layout);
            on_gpus(offloaded, gpus, precision);
            const bool others = layout.zero % 2 == 1;
            offloaded.offload = {.optimizer = others, .parameters = others, .gradients = true, .folder = folder};
            INFO(to_string(layout) << ", " << numbers_name(precision) << ", " << gpus << " GPUs, folder " << folder);
            CHECK((run(std::move(offloaded), 4) == expected));
          }
        }
      }
    }
  }
}

TEST_CASE("activations in host memory or on a disk give the bits of activations on GPUs", "[gpu]") {
  const ModelConfig config = half_config();
  for (const Precision& precision : {Precision::fp32(), Precision::bf16(), Precision::fp8(), Precision::fp8_of_blocks()}) {
    if (!computes(precision)) continue;
    for (Layout layout : {Layout{1, 1, 1, 1, "gpipe"}, Layout{2, 1, 1, 1, "interleaved", 2}, Layout{4, 1, 1, 1, "zb-h2"},
                          Layout{2, 2, 1, 1, "gpipe"}, Layout{2, 1, 2, 1, "looped-bfs", 2}}) {
      layout.zero = layout.dp > 1 ? 2 : 0;
      for (const int gpus : {1, 2}) {
        TrainJob plain = random_job(config, 128, 12 * layout.dp, layout);
        if (!on_gpus(plain, gpus, precision)) continue;
        const RunRecord expected = run(std::move(plain), 4);
        for (const std::filesystem::path& folder : offload_folders()) {
          for (const double fraction : {0.5, 1.0}) {
            if (!folder.empty() && fraction < 1) continue;
            TrainJob offloaded = random_job(config, 128, 12 * layout.dp, layout);
            on_gpus(offloaded, gpus, precision);
            offloaded.offload = {.activations = true, .activation_fraction = fraction, .folder = folder};
            INFO(to_string(layout) << ", " << numbers_name(precision) << ", " << gpus << " GPUs, folder " << folder);
            CHECK((run(std::move(offloaded), 4) == expected));
          }
        }
      }
    }
  }
}
