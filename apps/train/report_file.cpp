#include "apps/train/report_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <ostream>
#include <thread>

#include "apps/output/output_files.hpp"
#include "apps/output/output_target.hpp"
#include "core/counted.hpp"
#include "core/error.hpp"
#include "records/metrics_reader.hpp"

namespace pipetrain {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds shortest_pause{5}, shortest_served_pause{1}, longest_served_pause{10};
constexpr int writes_to_pause = 50;
constexpr std::size_t most_report_notes = 100;

std::string local_time() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  std::array<char, 64> text{};
  if (!::localtime_r(&now, &parts) || std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S %z", &parts) == 0) return "";
  return text.data();
}

Facts host_facts(const DeviceSettings& devices, int ranks) {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) name[0] = '\0';
  utsname system{};
  ::uname(&system);
  const bool cpu = devices.kind == DeviceKind::cpu;
  return {
      {"host", name.data()},
      {"system", fmt::format("{} {} {}", system.sysname, system.release, system.machine)},
      {"cores", fmt::format("{}", std::thread::hardware_concurrency())},
      {"devices", cpu ? fmt::format("{} on the CPU, {} threads each", ranks, devices.threads) : fmt::format("{} GPUs", ranks)},
      {"pipetrain", PIPETRAIN_VERSION},
      {"started", local_time()}};
}

std::string joined_words(const std::vector<std::string>& words) { return fmt::format("{}", fmt::join(words, " ")); }

// Returns the command that trains the same run in as many processes on one host, whatever started this one.
std::string rerun_command(const TrainOptions& options) {
  std::string command = "pipetrain";
  if (options.processes.several()) command += fmt::format(" launch --nproc {}", options.processes.processes);
  const std::string words = shell_words(options.given);
  return words.empty() ? command : command + " " + words;
}

Facts rerun_facts(const TrainOptions& options) {
  std::error_code none;
  std::string data = "the built-in text";
  for (const GivenOption& option : options.given)
    if (option.name == "data") data = joined_words(option.words);
  Facts facts = {{"pipetrain", PIPETRAIN_VERSION},
                 {"working folder", std::filesystem::current_path(none).string()},
                 {"data", data},
                 {"save folder", options.run.saving.folder ? options.run.saving.folder->string() : "none: nothing is saved"}};
  if (options.processes.several())
    facts.emplace_back("processes",
                       fmt::format("{}, {} of them on this host", options.processes.processes, options.processes.locals));
  return facts;
}

ReportPage::Rerun rerun_of(const TrainOptions& options) {
  ReportPage::Rerun rerun;
  rerun.command = rerun_command(options);
  rerun.facts = rerun_facts(options);
  for (const GivenOption& option : options.given)
    rerun.options.emplace_back("--" + option.name,
                               joined_words(option.words) + (option.place.empty() ? "" : "  (" + option.place + ")"));
  return rerun;
}

}  // namespace

std::unique_ptr<ReportFile> open_report(const TrainOptions& options, const TrainJob& job, PageServer* server) {
  return options.records.report || server ? std::make_unique<ReportFile>(options, job, server) : nullptr;
}

ReportFile::ReportFile(const TrainOptions& options, const TrainJob& job, PageServer* server)
    : options_(options),
      server_(server),
      is_rewritten_(options.records.report && !output_target("report", *options.records.report).is_stream()),
      report_(job, options.run.model.name, job_settings(options.run)),
      host_(host_facts(options.run.devices, static_cast<int>(options.run.ranks()))),
      rerun_(rerun_of(options)) {
  if (server_) serve(RunState::running, "");
}

void ReportFile::note(const std::string& text) {
  if (rerun_.notes.size() < most_report_notes) {
    rerun_.notes.push_back(text);
  } else {
    ++notes_left_out_;
  }
}

void ReportFile::add_history(std::int64_t steps_done) {
  if (steps_done == 0 || !options_.records.metrics) return;
  if (output_target("metrics", *options_.records.metrics).is_stream()) return;
  MetricsReader reader(*options_.records.metrics);
  reader.read();
  report_.add_history(reader.steps(), reader.evaluations());
}

std::optional<std::string> ReportFile::add(const StepMetrics& metrics, const StepReport& report, const Progress& progress) {
  report_.add(metrics, report);
  progress_ = progress;
  if (is_to_serve()) serve(RunState::running, "");
  return is_rewritten_ && Clock::now() >= next_ ? try_to_write() : std::nullopt;
}

bool ReportFile::is_to_serve() const {
  if (!server_) return false;
  const auto now = Clock::now();
  return now >= next_served_ && (server_->is_watched() || now >= served_ + longest_served_pause);
}

std::optional<std::string> ReportFile::try_to_write() {
  const auto begin = Clock::now();
  std::optional<std::string> told;
  try {
    write(RunState::running, "");
  } catch (const Error& error) {
    if (!failed_) told = fmt::format("{}; the run continues, and the page is tried again", error.what());
    failed_ = true;
  }
  const auto end = Clock::now();
  next_ = end + std::max<Clock::duration>(shortest_pause, writes_to_pause * (end - begin));
  return told;
}

void ReportFile::finish(RunState state, const std::string& text) {
  if (server_) serve(state, text);
  if (options_.records.report) write(state, text);
}

ReportPage ReportFile::page(RunState state, const std::string& text) const {
  ReportPage page = report_.page();
  ReportPage::Rerun rerun = rerun_;
  if (notes_left_out_ > 0)
    rerun.notes.push_back(fmt::format("and {}", counted(static_cast<std::int64_t>(notes_left_out_), "note")));
  page.state = state;
  page.state_text = text;
  page.written = std::time(nullptr);
  page.steps_total = progress_.total;
  page.seconds_left = progress_.seconds_left;
  page.host = host_;
  std::swap(rerun.history, page.rerun->history);
  page.rerun = std::move(rerun);
  page.host.emplace_back("this page", local_time());
  return page;
}

void ReportFile::serve(RunState state, const std::string& text) {
  const auto begin = Clock::now();
  ReportPage shown = page(state, text);
  shown.live = true;
  server_->publish(report_data(shown));
  served_ = Clock::now();
  next_served_ = served_ + std::max<Clock::duration>(shortest_served_pause, writes_to_pause * (served_ - begin));
}

void ReportFile::write(RunState state, const std::string& text) {
  const ReportPage shown = page(state, text);
  OutputFiles files;
  files.add("report", *options_.records.report, [&](std::ostream& out) { write_report(out, shown); });
  files.put_in_place();
}

}  // namespace pipetrain
