#include "bench/gpu/row_run.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "bench/gpu/prediction.hpp"
#include "bench/gpu/torch_peer.hpp"
#include "core/error.hpp"

namespace pipetrain::bench {

namespace fs = std::filesystem;

namespace {

std::string variable(const char* name, const std::string& otherwise) {
  const char* value = std::getenv(name);
  return value && *value ? value : otherwise;
}

std::string script_of(const Row& row, const fs::path& named) {
  return row.peer_script.empty() ? named : named.parent_path() / row.peer_script;
}

class RowRun {
 public:
  RowRun(const Row& row, const GpuOptions& options, const Programs& programs, const fs::path& folder)
      : options_(options), programs_(programs), folder_(folder), start_(std::chrono::steady_clock::now()) {
    result_.row = row;
  }

  RowResult run() {
    fs::create_directories(folder_);
    write_random_tokens(row(), tokens());
    for (int round = 0; round < options_.rounds; ++round) one_round(round);
    sort_runs(result_);
    if (!result_.ours.empty()) extra_parts();
    fs::remove(tokens());
    return std::move(result_);
  }

 private:
  const Row& row() const { return result_.row; }
  fs::path tokens() const { return folder_ / "tokens.jsonl"; }
  double seconds_left() const {
    const auto since = [](auto time) { return std::chrono::duration<double>(std::chrono::steady_clock::now() - time).count(); };
    return std::min(options_.budget - since(start_), options_.total - since(programs_.started));
  }

  void note(const std::string& what, bool failure) {
    result_.notes.push_back(what);
    result_.failed |= failure;
    fmt::print(stderr, "bench gpu: {}: {}\n", row().name, what);
  }

  // Runs it within the remaining budget; returns false, with a note, if it failed or was not started.
  bool run(Command& command, const std::string& what, const std::string& file) {
    command.output = folder_ / (file + ".out");
    command.seconds = seconds_left();
    if (command.seconds < 5) {
      note(what + " was left out: its --budget or the --total is spent", false);
      return false;
    }
    fmt::print(stderr, "bench gpu: {}: {} ...\n", row().name, what);
    const Ended ended = run_command(command);
    if (ended.ok()) return true;
    note(what + " " + why_failed(command, ended), true);
    return false;
  }

  // If the output or files of a run are not as expected, that run has failed.
  template <class Read>
  bool guarded(const std::string& what, Read read) {
    try {
      read();
      return true;
    } catch (const std::exception& error) {
      note(what + ": " + error.what(), true);
      return false;
    }
  }

  Command our_command(const std::vector<std::string>& arguments) const {
    Command command;
    command.arguments = {programs_.ours};
    command.arguments.insert(command.arguments.end(), arguments.begin(), arguments.end());
    command.without = "PIPETRAIN_";  // they would be options
    return command;
  }

  void one_round(int round) {
    const bool all_schedules = options_.part("schedules") && round == 0;
    std::optional<double> ours, peers;
    for (const Schedule& schedule : row().schedules) {
      if (&schedule != &row().schedules.front() && !all_schedules) break;
      const auto result = our_run(schedule, round, {});
      if (!result) continue;
      if (!ours) ours = result->figures.tokens_per_second;
      keep_best(*result);
    }
    if (options_.part("peer") && !programs_.peer_script.empty()) {
      for (const PeerVariant& variant : row().peers) {
        if (&variant != &row().peers.front() && (round > 0 || !options_.part("variants"))) break;
        const auto figures = peer_run(variant, round);
        if (!figures) continue;
        if (!peers) peers = figures->tokens_per_second;
        result_.peers.push_back(*figures);
      }
    }
    if (ours && peers) result_.ratios.push_back(*ours / *peers);
  }

  std::optional<ScheduleResult> our_run(const Schedule& schedule, int round, const std::vector<std::string>& more) {
    const std::string label = row().names_schedules() ? schedule.text() : "run";
    const std::string again = schedule.recompute == "none" ? "" : "-" + schedule.recompute;
    const std::string file = fmt::format("{}{}{}-{}", row().names_schedules() ? schedule.name : "run", again,
                                         more.empty() ? "" : more.back(), round);
    auto arguments = train_arguments(row(), schedule, tokens(), options_.warmup + options_.steps);
    const fs::path metrics = folder_ / (file + ".metrics"), profile = folder_ / (file + ".profile");
    arguments.insert(arguments.end(), {"--metrics", metrics.string(), "--trace", (folder_ / (file + ".trace.json")).string()});
    if (row().can_profile(schedule)) arguments.insert(arguments.end(), {"--profile", profile.string()});
    arguments.insert(arguments.end(), more.begin(), more.end());
    Command command = our_command(arguments);
    const std::string what =
        fmt::format("pipetrain {}{}", label, more.empty() ? "" : " " + fmt::format("{}", fmt::join(more, " ")));
    if (!run(command, what, file)) return std::nullopt;
    ScheduleResult result;
    result.schedule = schedule;
    const bool read = guarded(what, [&] {
      result.figures = read_metrics(metrics, options_.warmup);
      result.figures.variant = row().names_schedules() ? schedule.text() : "";
      const auto& state = state_of(schedule);
      if (!state.empty()) result.figures.memory_without_state = most_without_state(result.figures.memory, state);
      if (row().can_profile(schedule)) result.predicted = predicted_seconds(read_profile(profile), schedule);
      if (schedule.name == "zb-h1" && schedule.recompute == row().schedules.front().recompute) split_profile_ = profile;
    });
    return read ? std::optional(result) : std::nullopt;
  }

  // Asked once for all schedules of one chunk, which place the blocks alike.
  const std::vector<double>& state_of(const Schedule& schedule) {
    std::vector<double>& state = states_[schedule.chunks == 1 ? "" : schedule.text()];
    if (state.empty()) state = ask_state(schedule);
    return state;
  }

  std::vector<double> ask_state(const Schedule& schedule) {
    auto arguments = train_arguments(row(), schedule, tokens(), 1);
    arguments.emplace_back("--dry-run");
    Command command = our_command(arguments);
    if (!run(command, "pipetrain --dry-run", "dry-run-" + schedule.text())) return {};
    return state_bytes(output_of(command));
  }

  std::optional<RunFigures> peer_run(const PeerVariant& variant, int round) {
    Command command;
    const int port = 20000 + static_cast<int>(::getpid()) % 10000 + static_cast<int>(peer_runs_);
    command.arguments = peer_arguments(row(), variant,
                                       {.torchrun = programs_.torchrun,
                                        .script = script_of(row(), programs_.peer_script),
                                        .warmup = options_.warmup,
                                        .steps = options_.steps,
                                        .port = port});
    command.environment["NCCL_NVLS_ENABLE"] = "0";
    const std::string what = "PyTorch" + (row().pp > 1 || variant.async_tp ? " " + to_string(variant) : "");
    if (!run(command, what, fmt::format("peer{}-{}", peer_runs_++, round))) return std::nullopt;
    std::optional<RunFigures> figures;
    guarded(what, [&] { figures = read_peer(output_of(command), row(), variant); });
    return figures;
  }

  void extra_parts() {
    if (options_.part("deterministic") && row().devices() == 1) {
      if (const auto run = our_run(row().schedules.front(), 0, {"--deterministic", "off"}))
        result_.not_deterministic = run->figures;
    }
    if (options_.part("limit"))
      child("limit", row().schedules.front(), [&](const std::string& text) {
        result_.limit_ops = limit_from_json(text);
        result_.limit = limit_of(row(), result_.limit_ops);
      });
    if (const ScheduleResult* const apart = fastest_apart(result_); apart != nullptr && options_.part("shares"))
      child("shares", apart->schedule, [&](const std::string& text) {
        const StepMeasures measures = measures_from_json(text);
        result_.shares = measures.shares;
        for (const double bytes : measures.taken) result_.taken_bytes = std::max(result_.taken_bytes, bytes);
      });
    if (!split_profile_) return;
    for (ScheduleResult& result : result_.ours) {
      guarded("simulating " + result.schedule.name, [&] {
        const Profile profile = read_profile(*split_profile_);
        if (result.schedule.recompute == row().schedules.front().recompute && can_predict(profile, result.schedule))
          result.from_split_run = predicted_seconds(profile, result.schedule);
      });
    }
  }

  // Runs a part of this program in a process of its own; it prints one line of JSON.
  template <class Read>
  void child(const std::string& part, const Schedule& schedule, Read read) {
    Command command;
    command.arguments = {programs_.self,
                         "--child",
                         part,
                         "--rows",
                         row().name,
                         "--warmup",
                         std::to_string(options_.warmup),
                         "--data",
                         tokens().string(),
                         "--schedule",
                         schedule.text()};
    command.without = "PIPETRAIN_";
    if (!run(command, "measuring its " + part, part)) return;
    guarded(part, [&] { read(output_of(command)); });
  }

  // A schedule that ran in several rounds keeps its run of median throughput.
  void keep_best(const ScheduleResult& result) {
    runs_.push_back(result);
    const auto same = [&](const ScheduleResult& one) { return one.schedule.text() == result.schedule.text(); };
    std::vector<ScheduleResult> mine;
    std::copy_if(runs_.begin(), runs_.end(), std::back_inserter(mine), same);
    std::sort(mine.begin(), mine.end(), [](const ScheduleResult& a, const ScheduleResult& b) {
      return a.figures.tokens_per_second < b.figures.tokens_per_second;
    });
    std::erase_if(result_.ours, same);
    result_.ours.push_back(mine[(mine.size() - 1) / 2]);
  }

  const GpuOptions& options_;
  const Programs& programs_;
  fs::path folder_;
  std::chrono::steady_clock::time_point start_;
  RowResult result_;
  std::vector<ScheduleResult> runs_;
  std::map<std::string, std::vector<double>> states_;
  std::optional<fs::path> split_profile_;
  int peer_runs_ = 0;
};

}  // namespace

Programs find_programs() {
  Programs programs;
  const fs::path self = fs::read_symlink("/proc/self/exe");
  programs.self = self.string();
  programs.ours = variable("BENCH_PROGRAM", (self.parent_path() / "pipetrain").string());
  if (::access(programs.ours.c_str(), X_OK) != 0)
    throw Error(ErrorKind::input, "bench gpu: there is no program " + programs.ours + "; name it in BENCH_PROGRAM");
  programs.torchrun = variable("PIPETRAIN_TORCHRUN", "torchrun");
  programs.peer_script = variable("PIPETRAIN_TORCH_PEER", "");
  if (!programs.peer_script.empty() && ::access(programs.peer_script.c_str(), R_OK) != 0)
    throw Error(ErrorKind::input, "bench gpu: PIPETRAIN_TORCH_PEER names no file: " + programs.peer_script);
  return programs;
}

const ScheduleResult* fastest_apart(const RowResult& result) {
  const auto found = std::find_if(result.ours.begin(), result.ours.end(),
                                  [&](const ScheduleResult& one) { return result.row.can_profile(one.schedule); });
  return found == result.ours.end() ? nullptr : &*found;
}

void sort_runs(RowResult& result) {
  std::sort(result.ours.begin(), result.ours.end(), [](const ScheduleResult& a, const ScheduleResult& b) {
    return a.figures.tokens_per_second > b.figures.tokens_per_second;
  });
  std::sort(result.peers.begin(), result.peers.end(),
            [](const RunFigures& a, const RunFigures& b) { return a.tokens_per_second > b.tokens_per_second; });
  if (result.peers.empty()) return;
  const auto fits = std::find_if(result.ours.begin(), result.ours.end(), [&](const ScheduleResult& one) {
    return one.figures.memory_without_state <= result.peers.front().memory_without_state;
  });
  if (fits != result.ours.end()) std::rotate(result.ours.begin(), fits, fits + 1);
}

RowResult run_row(const Row& row, const GpuOptions& options, const Programs& programs, const fs::path& folder) {
  return RowRun(row, options, programs, folder).run();
}

}  // namespace pipetrain::bench
