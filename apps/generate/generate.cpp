#include "apps/generate/generate.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <optional>

#include "actors/engine/run_failed.hpp"
#include "actors/generation/decoding.hpp"
#include "apps/generate/open_generation.hpp"
#include "apps/generate/text_printer.hpp"
#include "apps/output/stderr_lines.hpp"
#include "apps/processes/failed_run.hpp"
#include "apps/signals/signals.hpp"
#include "comm/ucx/ucx_process.hpp"
#include "core/counted.hpp"
#include "core/error.hpp"

namespace pipetrain {
namespace {

double mebibytes(std::size_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

// Prints what each device would hold. Throws Error also if the machine has too little memory for it.
void dry_run_generation(const GenerateOptions& options, const GenerationJob& job, const std::vector<std::string>& notes) {
  std::optional<GenerationEstimate> estimate;
  const auto planned = planned_processes(options.processes, options.devices.kind);
  placing_errors(options.places, [&] { estimate = estimate_generation(job, planned); });
  fmt::print("{} of {} at the same time, at most {} positions each\n", counted(job.sequences, "prompt"), options.prompts.size(),
             job.positions);
  fmt::print("{:>6} {:>5} {:>4} {:>7} {:>11} {:>15} {:>9} {:>10} {:>11}\n", "device", "stage", "rank", "blocks", "parameters",
             "key-value cache", "queues", "workspace", "total MiB");
  for (std::size_t i = 0; i < estimate->devices.size(); ++i) {
    const auto& [rank, use] = estimate->devices[i];
    fmt::print("{:>6} {:>5} {:>4} {:>7} {:>11.1f} {:>15.1f} {:>9.1f} {:>10.1f} {:>11.1f}\n", i, rank.pp, rank.tp,
               estimate->blocks[static_cast<std::size_t>(rank.pp)].size(), mebibytes(use.parameters), mebibytes(use.cache),
               mebibytes(use.queues), mebibytes(use.workspace), mebibytes(use.total()));
  }
  for (const auto& note : notes) print_note(note);
  if (estimate->shortage) throw Error(*estimate->shortage);
}

void print_speed(std::int64_t tokens, double seconds) {
  print_note(fmt::format("{} in {:.2f} s, {:.1f} tokens/s", counted(tokens, "token"), seconds,
                         seconds > 0 ? static_cast<double>(tokens) / seconds : 0.0));
}

// A stopped run still finishes a token as long as its actions complete within this time.
constexpr std::chrono::seconds generation_patience{5};

// A printer for a run of several processes, which all end when one is asked to stop.
class StoppablePrinter : public TextPrinter {
 public:
  using TextPrinter::TextPrinter;
  bool continues() override { return stop_signal() == 0; }
};

void generate(Generator& generator, const OpenPrompts& open, TextPrinter& printer) {
  const auto start = std::chrono::steady_clock::now();
  decode_prompts(generator, open.prompts, open.decoding, printer);
  if (printer.continues())
    print_speed(printer.tokens(), std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
}

// Prints which stage waits for which, in the whole run.
void answer_generation(Generator& generator) {
  for (const auto& line : generator.waiting()) print_over_progress(line);
}

// Runs process 0. Returns the exit status.
int lead(Generator& generator, const GenerateOptions& options, const OpenPrompts& open, JoinedRun* joined) {
  if (!joined) {
    TextPrinter printer(options.prompts, open.prompts, open.tokenizer.get(), options.json);
    generate(generator, open, printer);
    return 0;
  }
  const auto stop = [&] {
    joined->ask_to_stop(stop_signal());
    generator.finish_step(generation_patience);
  };
  const SignalAnswers answers({stop, [&] { answer_generation(generator); }, {}});
  StoppablePrinter printer(options.prompts, open.prompts, open.tokenizer.get(), options.json);
  try {
    generate(generator, open, printer);
  } catch (const RunFailed&) {
    throw;
  } catch (const Error&) {
    generator.abort(std::current_exception());  // so that the other processes report it too
    throw;
  }
  if (stop_signal() == 0) return 0;
  print_over_progress("stopped by " + stop_signal_name());
  return stop_signal_status();
}

// Runs a process other than the first. Returns the exit status.
int follow_generation(Generator& generator, JoinedRun& joined) {
  const SignalAnswers answers({[&] { joined.ask_to_stop(stop_signal()); }, [&] { answer_generation(generator); }, {}});
  generator.follow();
  return stop_signal() != 0 ? stop_signal_status() : 0;
}

// Reports the failure. Returns the exit status; if threads still run, which cannot be joined, ends the process here.
int failed(const RunFailed& failure, const GenerateOptions& options, const JoinedRun* joined) {
  const int status = report_failed_run(failure, joined, options.processes.stop_grace);
  if (failure.everything_stopped()) return status;
  hold_ucx_openings();
  std::fflush(nullptr);
  std::_Exit(status);
}

}  // namespace

int run_generate(const GenerateOptions& options) {
  if (options.dry_run && !options.processes.leads()) return 0;
  std::vector<std::string> notes = options.notes;
  if (!options.processes.leads()) leave_stop_to_first_process();
  const auto joined = join_run(options);
  OpenPrompts open;
  GenerationJob job = open_job(options, joined.get(), open, notes);
  if (options.dry_run) {
    dry_run_generation(options, job, notes);
    return 0;
  }
  std::unique_ptr<Generator> generator;
  placing_errors(options.places, [&] { generator = std::make_unique<Generator>(job); });
  job.weights = nullptr;
  for (GenerationAdapter& adapter : job.adapters) adapter.weights = nullptr;
  try {
    if (!options.processes.leads()) return follow_generation(*generator, *joined);
    for (const auto& note : notes) print_note(note);
    return lead(*generator, options, open, joined.get());
  } catch (const RunFailed& failure) {
    return failed(failure, options, joined.get());
  }
}

}  // namespace pipetrain
