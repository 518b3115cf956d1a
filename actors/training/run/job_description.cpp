#include "actors/training/run/job_description.hpp"

#include <fmt/format.h>

#include "actors/training/job/setting_row.hpp"
#include "actors/training/rank/parallel_layout.hpp"
#include "core/counted.hpp"
#include "model/costs.hpp"
#include "schedules/plan/grid.hpp"

namespace pipetrain {
namespace {

std::string block_name(const Block& block) {
  switch (block.kind) {
    case BlockKind::embedding:
      return "embedding";
    case BlockKind::attention:
      return fmt::format("{}.attention", block.layer);
    case BlockKind::mlp:
      return fmt::format("{}.mlp", block.layer);
    case BlockKind::experts:
      return fmt::format("{}.experts", block.layer);
    case BlockKind::mtp:
      return "mtp";
    default:
      return "head";
  }
}

// Returns a text such as "embedding .. 3.attention (8 blocks)".
std::string run_name(const std::vector<Block>& blocks) {
  if (blocks.size() == 1) return block_name(blocks.front());
  return fmt::format("{} .. {} ({} blocks)", block_name(blocks.front()), block_name(blocks.back()), blocks.size());
}

// Returns a text such as "3 microbatches" or "5 slices (1.25 microbatches)".
std::string in_flight(int count, int slices) {
  if (slices == 1) return counted(count, "microbatch", "es");
  return fmt::format("{} ({:.4g} microbatches)", counted(count, "slice"), static_cast<double>(count) / slices);
}

std::string stage_lines(const JobEstimate& estimate) {
  std::string lines;
  const auto& placement = estimate.plan.placement;
  for (int stage = 0; stage < placement.stages(); ++stage) {
    for (int chunk = 0; chunk < placement.chunks(); ++chunk) {
      const auto& blocks = estimate.blocks[static_cast<std::size_t>(placement.virtual_stage(stage, chunk))];
      const auto& needs = estimate.needs[static_cast<std::size_t>(stage)].chunks[static_cast<std::size_t>(chunk)];
      lines +=
          fmt::format("stage {}{}: {}; at most {} {}\n", stage, placement.chunks() > 1 ? fmt::format(" chunk {}", chunk) : "",
                      run_name(blocks), in_flight(needs.peak_activations, estimate.plan.slices),
                      needs.peak_offloaded > 0 ? fmt::format("here, {} offloaded", needs.peak_offloaded) : "in flight");
    }
  }
  return lines;
}

double mebibytes(std::size_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

// Returns the line on memory outside the devices; empty where nothing is offloaded or saved.
std::string outside_line(const std::vector<DeviceMemory>& devices) {
  std::size_t host = 0, disk = 0, snapshots = 0;
  for (const DeviceMemory& device : devices) {
    host += device.use.host;
    disk += device.use.disk;
    snapshots += device.use.snapshot;
  }
  std::string line;
  if (host > 0)
    line += fmt::format("{}: {:.1f} MiB in all\n",
                        disk > 0 ? "host memory for transfers to the disk" : "offloaded to host memory", mebibytes(host));
  if (disk > 0) line += fmt::format("offloaded to disk: {:.1f} MiB in all\n", mebibytes(disk));
  if (snapshots > 0)
    line += fmt::format("host memory for the snapshot that checkpoints are written from: {:.1f} MiB\n", mebibytes(snapshots));
  return line;
}

// Returns the line on the copies from which an elastic run continues; empty where none are kept.
std::string copies_line(const JobEstimate& estimate) {
  std::size_t copies = 0;
  for (const DeviceMemory& device : estimate.devices) copies += device.use.copies;
  if (copies == 0) return "";
  std::string line = fmt::format("host memory for copies of states: {:.1f} MiB", mebibytes(copies));
  if (estimate.copied_bytes > 0) {
    constexpr double bytes_a_second = 50e9;  // of PCIe 5 with 16 lanes
    line += fmt::format("; a GPU copies {:.1f} MiB after each step, during the next one ({:.3f} s over PCIe 5 at 50 GB/s)",
                        mebibytes(estimate.copied_bytes), static_cast<double>(estimate.copied_bytes) / bytes_a_second);
  }
  if (estimate.passed_bytes > 0) {
    constexpr double bytes_a_second = 10e9 / 8;
    line += fmt::format(
        "; a process passes {:.1f} MiB on to its buddy after each step, during the next one ({:.3f} s at 10 Gbit/s)",
        mebibytes(estimate.passed_bytes), static_cast<double>(estimate.passed_bytes) / bytes_a_second);
  }
  return line + "\n";
}

// Memory is for the most rows that ranks may send one of them.
std::string expert_lines(const TrainJob& job) {
  const Experts& experts = job.config.experts;
  const std::int64_t ranks = job.layout.ep, own = experts.count / ranks;
  if (ranks == 1) return "";
  const double most = static_cast<double>(ranks * std::min(experts.chosen, own)) / static_cast<double>(experts.chosen);
  return fmt::format(
      "experts over {} ranks: {} of {} on each; memory holds {:.1f} times the rows of even loads, the most that a router can "
      "send to one rank\n",
      ranks, own, experts.count, most);
}

std::string memory_table(const std::vector<DeviceMemory>& devices, const MeshShape& shape) {
  std::string table =
      fmt::format("{:>6} {:>7} {:>5} {:>4} {:>11} {:>11} {:>11} {:>12} {:>9} {:>10} {:>11}\n", "device", "replica", "stage",
                  "rank", "parameters", "gradients", "optimizer", "activations", "queues", "workspace", "total MiB");
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const auto& [rank, use] = devices[i];
    table += fmt::format("{:>6} {:>7} {:>5} {:>4} {:>11.1f} {:>11.1f} {:>11.1f} {:>12.1f} {:>9.1f} {:>10.1f} {:>11.1f}\n", i,
                         rank.dp, rank.pp, stage_rank(rank, shape), mebibytes(use.parameters), mebibytes(use.gradients),
                         mebibytes(use.optimizer), mebibytes(use.activations), mebibytes(use.queues), mebibytes(use.workspace),
                         mebibytes(use.total()));
  }
  return table + outside_line(devices);
}

}  // namespace

std::string job_description(const TrainJob& job, const JobEstimate& estimate) {
  return fmt::format("{} parameters{}, {}, sequence {}{}; {} a step: dp {} x {} of {}\n", parameter_count(job.config),
                     job.config.trained.all() ? "" : fmt::format(" ({} of them trained)", trained_parameter_count(job.config)),
                     counted(job.config.layers, "layer"), job.dataset->sequence_length(),
                     job.layout.cp > 1 ? fmt::format(" over {} ranks", job.layout.cp) : "",
                     counted(job.batch.global_batch(), "sample"), job.batch.dp,
                     counted(job.batch.microbatches, "microbatch", "es"), job.batch.microbatch) +
         fmt::format("schedule {}, {}{}{}\n{}\n", estimate.plan.schedule, counted(job.layout.pp, "stage"),
                     job.layout.slices > 1 ? fmt::format(", {} slices a microbatch", job.layout.slices) : "",
                     described_settings(job), schedules::print_grid(estimate.plan, {})) +
         fmt::format("cut {} ({})\n", cut_text(cut_of(estimate.blocks)),
                     job.layout.cut.empty() ? "attention and MLP blocks of each virtual stage, by cost" : "as given") +
         stage_lines(estimate) + expert_lines(job) + memory_table(estimate.devices, mesh_of(job).shape()) +
         copies_line(estimate);
}

}  // namespace pipetrain
