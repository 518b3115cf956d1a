#include "apps/launch/launch.hpp"

#include <fmt/format.h>

#include <chrono>
#include <ctime>
#include <functional>
#include <optional>
#include <thread>
#include <utility>

#include "apps/generate/generate.hpp"
#include "apps/generate/generate_options.hpp"
#include "apps/launch/end_report_page.hpp"
#include "apps/launch/launch_attempt.hpp"
#include "apps/launch/launch_program.hpp"
#include "apps/options/operands.hpp"
#include "apps/options/option_table.hpp"
#include "apps/output/stderr_lines.hpp"
#include "apps/signals/signals.hpp"
#include "apps/train/train.hpp"
#include "comm/control/held_port.hpp"
#include "comm/control/token.hpp"
#include "comm/ucx/ucx_process.hpp"
#include "core/error.hpp"

namespace pipetrain {

namespace {

// The program that is launched; all its processes get the same options.
struct Launched {
  std::string file;                // set if it is another program than this one
  std::vector<std::string> words;  // its command line
  MeshShape shape;                 // of its ranks
  LaunchOptions launch;
  std::function<void(const LaunchCause&)> report_end;  // called for a run that failed and is not started again; may be null
  bool continues = false;                              // see LaunchPlan
  int spares = 0;                                      // processes without ranks
};

std::vector<std::string> words_of(const char* command, const std::vector<std::string>& arguments) {
  std::vector<std::string> words = {"pipetrain", command};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return words;
}

LaunchPlan plan_of(const Launched& launched, const std::optional<HeldPort>& port) {
  const LaunchOptions& launch = launched.launch;
  LaunchPlan plan;
  plan.file = launched.file;
  plan.words = launched.words;
  plan.first = launch.node_rank * launch.nproc;
  plan.count = launch.nproc;
  plan.processes = launch.processes();
  const MasterAddress master = launch.master.value_or(MasterAddress{});
  plan.host = master.host;
  plan.port = port ? port->port() : master.port;
  // Launches on several hosts cannot agree on a token of their own.
  plan.token = launch.token.empty() && launch.nnodes == 1 ? control::random_token() : launch.token;
  plan.continues = launched.continues;
  plan.restarted_processes = launch.restarted_processes;
  return plan;
}

// A run that would end the same way each time is not started again.
bool may_start_again(const LaunchCause& cause) {
  return stop_signal() == 0 && cause.kind != ErrorKind::input && cause.kind != ErrorKind::numeric &&
         cause.kind != ErrorKind::aborted && cause.kind != ErrorKind::unavailable;
}

// Waits until the launches of other hosts have noticed the end: a process that comes too early would meet the ending run.
void wait_for_other_hosts(const LaunchOptions& launch) {
  constexpr std::chrono::seconds longest_end{5};
  constexpr std::chrono::milliseconds look{50};
  if (launch.nnodes == 1) return;
  for (auto left = std::chrono::milliseconds(longest_end); left.count() > 0 && stop_signal() == 0; left -= look)
    std::this_thread::sleep_for(look);
}

int run_attempts(const Launched& launched) {
  const LaunchOptions& launch = launched.launch;
  std::optional<HeldPort> port;
  if (!launch.master) port.emplace(MasterAddress{}.port);
  LaunchPlan plan = plan_of(launched, port);
  const ProcessLabels labels(launched.shape, plan.processes - launched.spares);
  for (;; ++plan.attempt) {
    const auto cause = LaunchAttempt(plan, labels).wait();
    remove_ucx_leftovers();
    if (!cause) return stop_signal() != 0 ? stop_signal_status() : 0;
    if (plan.attempt == launch.restarts || !may_start_again(*cause)) {
      const bool untried = plan.attempt < launch.restarts && cause->kind == ErrorKind::unavailable;
      const bool advise_restart = cause->restart_helps && launch.restarts == 0;
      if (!cause->line.empty())
        print_error(cause->line + (advise_restart ? ", or use --restart"
                                   : untried      ? "; not started again (--restart), because it would end the same way"
                                                  : ""));
      if (launched.report_end) launched.report_end(*cause);
      if (cause->unsaid) print_note("stopped by " + stop_signal_name());
      return cause->status;
    }
    print_note(fmt::format("{}; the run starts again from its last checkpoint (restart {} of {})", cause->line,
                           plan.attempt + 1, launch.restarts));
    wait_for_other_hosts(launch);
    if (stop_signal() != 0) return stop_signal_status();
  }
}

int launch_train(const std::vector<std::string>& arguments, const Environment& environment) {
  const LaunchedRun run = parse_launch_options(arguments, environment, this_machine());
  if (run.train.dry_run) return run_train(run.train);
  if (run.launch.restarted_processes > 0 && run.train.run.elastic == Elastic::off)
    throw Error(ErrorKind::input,
                fmt::format("--restart-processes {}: a run ends with its first lost process, and --elastic is "
                            "off; use --elastic takeover, or --restart",
                            run.launch.restarted_processes));
  const MeshShape shape = run.train.run.mesh_shape();
  Launched launched{{}, words_of("train", arguments), shape, run.launch, nullptr};
  launched.continues = run.train.run.elastic == Elastic::takeover;
  launched.spares = run.train.run.spares;
  // Process 0, which writes the page, runs on the first host.
  if (const auto& report = run.train.records.report; report && run.launch.node_rank == 0)
    launched.report_end = [&report, since = std::time(nullptr)](const LaunchCause& cause) {
      end_report_page(*report, since, cause);
    };
  return run_attempts(launched);
}

int launch_generate(const std::vector<std::string>& arguments, const Environment& environment) {
  const LaunchedGeneration run = parse_launch_generate_options(arguments, environment, this_machine());
  if (run.generate.dry_run) return run_generate(run.generate);
  return run_attempts(
      {{}, words_of("generate", arguments), {.pp = run.generate.pp, .tp = run.generate.tp}, run.launch, nullptr});
}

// Removes the word "generate" from the arguments, wherever it is not an option's value. The command reports other mistakes.
bool take_generate(std::vector<std::string>& arguments) {
  const OptionRows either = joined_rows({generate_option_table(), train_option_table()});
  std::vector<std::string> options = arguments;
  if (take_operands(either, options) != std::vector<std::string>{"generate"}) return false;
  arguments = std::move(options);
  return true;
}

}  // namespace

int run_launch(const std::vector<std::string>& arguments, const Environment& environment) {
  if (const auto program = read_launch_program(arguments, environment))
    return run_attempts({program->file, program->words, {.tp = program->launch.processes()}, program->launch, nullptr});
  std::vector<std::string> options = arguments;
  if (take_generate(options)) return launch_generate(options, environment);
  return launch_train(options, environment);
}

std::string launch_help() {
  return "pipetrain launch --nproc N [OPTIONS of train]\n"
         "pipetrain launch --nproc N generate [OPTIONS of generate]\n"
         "pipetrain launch --nproc N PROGRAM [ARGUMENTS]\n"
         "Train, or generate text, with several processes on this host, and on others where launch runs too. Ranks\n"
         "(pp x tp x dp, tp fastest) are assigned to the processes in order.\n"
         "\n"
         "  pipetrain launch --nproc 4 --pp 4\n"
         "  pipetrain launch --nproc 4 --pp 4 --save run --save-interval 100 --restart 3\n"
         "  pipetrain launch --nproc 8 --nnodes 2 --node-rank 0 --master 10.0.0.1:29500 --token-file token --pp 2 --tp 8\n"
         "  pipetrain launch --nproc 2 generate --model run/model --prompt \"The river\" --pp 2\n"
         "  pipetrain launch --nproc 4 python examples/torch_pipeline.py --processes\n"
         "\n"
         "A program other than pipetrain joins by pipetrain.World (docs/embedding.md). Options of launch precede its name:\n"
         "--nproc, --nnodes, --node-rank, --master and --token-file.\n"
         "\n"
         "Process 0 draws the progress and writes the files. When a process fails, ends or is stopped, all of them end, with\n"
         "one line that names it, and the exit status is its own. SIGINT, SIGTERM and SIGHUP are passed on: the step is\n"
         "finished, and saved where --save is given. SIGUSR1 prints which stage waits for which.\n"
         "\n"
         "Under torchrun, Slurm (srun), Open MPI, PMI and PMIx each process is `pipetrain train` (or generate), which reads its\n"
         "number and the address of process 0 from the environment: see docs/multi-node.md.\n"
         "\n" +
         format_options(train_option_table());
}

}  // namespace pipetrain
