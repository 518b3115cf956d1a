// Measures training steps on this machine's GPUs and compares them with PyTorch and with the chip's limits: see
// bench/README.md and --help.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "bench/gpu/gpu_options.hpp"
#include "bench/gpu/report.hpp"
#include "bench/gpu/row_run.hpp"
#include "core/device.hpp"
#include "core/error.hpp"

namespace pipetrain::bench {
namespace {

namespace fs = std::filesystem;

void list_rows(const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    fmt::print("{:<26} {} GPU{}, {}{}{}: {}\n", row.name, row.devices(), row.devices() == 1 ? " " : "s", row.model,
               row.layers > 0 ? fmt::format(" cut to {} layers", row.layers) : "", row.on_cpu ? ", on the CPU" : "",
               row.layout());
  }
}

// Measures a part of a row in this process; prints one line of JSON.
int measure_part(const GpuOptions& options) {
  const Row row = select_rows(options.rows).at(0);
  if (*options.child == "limit") {
    OpBench bench = row.on_cpu ? cpu_op_bench() : gpu_op_bench();
    auto ops = limit_ops(row);
    measure_limit(bench, row, ops, row.on_cpu ? 0 : 1, row.on_cpu ? 0 : 2);
    fmt::print("{}\n", to_json(ops));
    return 0;
  }
  for (const Schedule& schedule : row.schedules) {
    if (schedule.text() != options.schedule) continue;
    fmt::print("{}\n", to_json(measure_step(row, schedule, options.data, options.warmup)));
    return 0;
  }
  throw Error(ErrorKind::input, "bench gpu: " + row.name + " has no schedule " + options.schedule);
}

// The folder of the runs' files, removed at the end unless it is to be kept.
class Folder {
 public:
  explicit Folder(const std::string& keep) : keep_(!keep.empty()) {
    path_ = keep_ ? fs::path(keep) : fs::temp_directory_path() / fmt::format("pipetrain-bench-gpu-{}", ::getpid());
    fs::create_directories(path_);
  }
  ~Folder() {
    std::error_code ignored;
    if (!keep_) fs::remove_all(path_, ignored);
  }
  const fs::path& path() const { return path_; }

 private:
  bool keep_;
  fs::path path_;
};

// Returns "4 x NVIDIA H200, 580.1", from the driver's own program.
std::string machine(const fs::path& folder) {
  Command command;
  command.arguments = {"nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"};
  command.output = folder / "machine";
  command.seconds = 30;
  if (!run_command(command).ok()) return "A machine without nvidia-smi.";
  std::istringstream lines(output_of(command));
  std::string first;
  std::getline(lines, first);
  return fmt::format("{} x {} (name, driver)", cuda_device_count(), first);
}

// Called after every row, so that results are kept whatever happens next.
void write_page(const std::string& file, const std::string& text) {
  std::ofstream page(file);
  page << text;
  if (!page.flush()) throw Error(ErrorKind::input, "bench gpu: --results " + file + " cannot be written");
}

bool run_rows(const GpuOptions& options, const std::string& command) {
  const Programs programs = find_programs();
  const int gpus = cuda_device_count();
  if (options.part("peer") && programs.peer_script.empty())
    fmt::print(stderr, "bench gpu: PIPETRAIN_TORCH_PEER names no script: the comparison with PyTorch is not run\n");
  const Folder folder(options.keep);
  const std::string where = machine(folder.path());
  std::vector<RowResult> results;
  bool pass = true;
  for (const Row& row : select_rows(options.rows)) {
    if (!row.on_cpu && row.devices() > gpus) {
      fmt::print(stderr, "bench gpu: {} is left out: it needs {} GPUs and {} are here\n", row.name, row.devices(), gpus);
      continue;
    }
    if (std::chrono::steady_clock::now() - programs.started > std::chrono::duration<double>(options.total)) {
      fmt::print(stderr, "bench gpu: {} is left out: the --total is spent\n", row.name);
      continue;
    }
    results.push_back(run_row(row, options, programs, folder.path() / row.name));
    pass &= !results.back().failed;
    for (const Number& number : numbers_of(results.back()))
      pass &= report(number.name, number.value, number.unit, number.kind, number.limit);
    fmt::print(stderr, "{}", throughput_table({results.back()}));
    if (!options.results.empty()) write_page(options.results, results_page(results, where, command));
  }
  if (results.empty()) {
    fmt::print(stderr, "bench gpu: no row was run: none fits the {} GPUs here\n", gpus);
    return false;
  }
  fmt::print(stderr, "\n{}", all_tables(results));
  return pass;
}

}  // namespace
}  // namespace pipetrain::bench

int main(int argc, char** argv) {
  using namespace pipetrain::bench;
  try {
    const GpuOptions options = parse_gpu_options({argv + 1, argv + argc});
    if (options.help) {
      fmt::print("{}", gpu_help());
    } else if (options.list) {
      list_rows(options.rows.empty() ? all_rows() : select_rows(options.rows));
    } else if (options.child) {
      return measure_part(options);
    } else {
      std::string command = "bench_gpu";
      for (int i = 1; i < argc; ++i) command += std::string(" ") + argv[i];
      return run_rows(options, command) ? 0 : 1;
    }
    return 0;
  } catch (const pipetrain::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return exit_status(error.kind());
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench gpu: {}\n", error.what());
    return 1;
  }
}
