#include "apps/relayout/relayout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>

#include "apps/options/operands.hpp"
#include "apps/options/option_values.hpp"
#include "apps/options/shared_options.hpp"
#include "apps/output/output_lock.hpp"
#include "apps/relayout/relayout_files.hpp"
#include "core/error.hpp"

namespace pipetrain {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::int64_t usual_timeout = 600, longest_timeout = 1'000'000;

// Waits for the answer. Returns no value where none came in time, or the run has ended; the request is then withdrawn. A run
// that passes its folder on to another process holds it for seconds in no process.
std::optional<RelayoutAnswer> wait_for_answer(const fs::path& folder, const std::string& id, std::chrono::seconds timeout) {
  constexpr std::chrono::milliseconds look{20};
  constexpr std::chrono::seconds passing_on{10};
  auto in_use = Clock::now();
  for (const auto end = in_use + timeout; Clock::now() < end; std::this_thread::sleep_for(look)) {
    if (auto answer = take_answer(folder, id)) return answer;
    if (is_folder_in_use(folder)) in_use = Clock::now();
    if (Clock::now() > in_use + passing_on) break;
  }
  if (is_request_waiting(folder)) remove_relayout_files(folder);
  return {};
}

fs::path folder_of(const std::vector<std::string>& operands) {
  if (operands.size() != 1)
    throw Error(ErrorKind::input,
                fmt::format("relayout: takes the --save folder of a run, and {} are given; write pipetrain relayout run --pp 4",
                            operands.size()));
  const fs::path folder = operands[0];
  if (!is_folder_in_use(folder))
    throw Error(
        ErrorKind::input,
        fmt::format("relayout: no run saves in {} now; give the --save folder of a live run, or start one with --resume "
                    "and the new layout",
                    folder.string()));
  if (is_request_waiting(folder))
    throw Error(ErrorKind::input, fmt::format("relayout: the run in {} has another request; wait for its answer, or remove "
                                              "relayout.request",
                                              folder.string()));
  return folder;
}

// The layout options of train.
OptionRows layout_rows() {
  OptionRows rows;
  for (const char* name :
       {"pp", "tp", "dp", "cp", "ep", "zero", "schedule", "chunks", "cut", "order", "microbatch", "microbatches", "recompute",
        "recompute-num-layers", "offload", "optimizer-offload-fraction", "activation-offload-fraction", "offload-to"})
    if (const OptionSpec* row = find_option(train_option_table(), name)) {
      rows.push_back(*row);
      rows.back().group = "Layout";
      rows.back().default_value = "as the run has it";
    }
  return rows;
}

}  // namespace

const OptionRows& relayout_option_table() {
  static const OptionRows table = joined_rows({
      layout_rows(),
      {{"Processes", "nproc", "N",
        "the processes of a run with --elastic takeover: pipetrain launch starts more on the host of process 0, or the last ones hand over their ranks and end",
        IntegerRange{1, most_processes}, "as the run has them"}},
      {{"Answer", "timeout", "SECONDS", "the longest wait for the run's answer", IntegerRange{1, longest_timeout},
        fmt::format("{}", usual_timeout)}},
      page_options(),
  });
  return table;
}

std::string relayout_help() {
  return "pipetrain relayout DIR OPTIONS\n"
         "Changes the layout of a live run between two steps. DIR is the run's --save folder. Options that are not given stay as\n"
         "they are. The run checks the new layout first, and its memory, and simulates its step with the times that it has\n"
         "measured; where something is wrong it goes on as before.\n"
         "\n"
         "  pipetrain --pp 2 --save run &\n"
         "  pipetrain relayout run --pp 4 --schedule zb-h1\n"
         "  pipetrain relayout run --nproc 4 --pp 4\n"
         "\n" +
         format_options(relayout_option_table()) +
         "\n"
         "With the same tp, dp, cp, ep and microbatches the losses and weights of all later steps have the bits of a run that was\n"
         "not changed; else they agree within rounding. Exit status: 0 changed, 1 no answer came, 2 the command line is wrong or\n"
         "the run has refused the layout.\n";
}

int run_relayout(const std::vector<std::string>& given, const Environment&) {
  std::vector<std::string> arguments = given;
  const std::vector<std::string> operands = take_operands(relayout_option_table(), arguments);
  RawOptions options = read_command_line(relayout_option_table(), arguments);
  const OptionValues values(relayout_option_table(), options);
  const std::chrono::seconds timeout(values.integer("timeout").value_or(usual_timeout));
  options.erase("timeout");
  if (options.empty()) throw Error(ErrorKind::input, "relayout: no layout is given; give at least one option, such as --pp 4");
  const fs::path folder = folder_of(operands);
  RelayoutRequest request{fmt::format("{}-{}", ::getpid(), Clock::now().time_since_epoch().count()), {}};
  for (const auto& [name, option] : options) {
    request.arguments.push_back("--" + name);
    request.arguments.insert(request.arguments.end(), option.words.begin(), option.words.end());
  }
  write_request(folder, request);
  const auto answer = wait_for_answer(folder, request.id, timeout);
  if (!answer)
    throw Error(ErrorKind::unavailable,
                fmt::format("relayout: the run in {} has ended, or its step takes longer than {} s; start it with --resume and "
                            "the new layout, or give a longer --timeout",
                            folder.string(), timeout.count()));
  if (!answer->changed) throw Error(ErrorKind::input, "relayout: " + answer->text);
  fmt::print("relayout: {}\n", answer->text);
  return 0;
}

}  // namespace pipetrain
