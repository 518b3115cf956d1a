// Feeds mutated files to every parser for any length of time: ./dev bench fuzz, under AddressSanitizer and
// UndefinedBehaviorSanitizer. A finding is saved to a file; `--replay FILE PARSER` runs it again.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/fuzz/workers.hpp"
#include "bench/result.hpp"

namespace {

namespace fs = std::filesystem;
namespace fuzz = pipetrain::fuzz;

constexpr std::string_view usage =
    "usage: fuzz [--seconds N | --executions N] [--seed S] [--first N] [--workers N] [--findings DIR] [--replay FILE] [PARSER...]\n"
    "Without limits: 60 seconds. Limits are for all parsers together, in equal parts.\n"
    "--first N begins with execution N of the seed, to repeat one. --workers N divides executions over processes.\n";

struct Options {
  double seconds = 0;
  std::uint64_t executions = 0, seed = 1, first = 0;
  int workers = 1;
  fs::path findings = ".";
  std::optional<fs::path> replay;
  std::vector<std::string> parsers;
};

[[noreturn]] void fail(const std::string& what) {
  fmt::print(stderr, "fuzz: error: {}\n{}", what, usage);
  std::exit(2);
}

std::uint64_t number(std::string_view option, std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    fail(fmt::format("{} {}: must be a whole number", option, text));
  return value;
}

Options parse(const std::vector<std::string>& words) {
  Options options;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (!word.starts_with("--")) {
      options.parsers.push_back(word);
      continue;
    }
    if (word == "--help") {
      fmt::print("{}", usage);
      std::exit(0);
    }
    if (i + 1 == words.size()) fail(word + " needs a value");
    const std::string& value = words[++i];
    if (word == "--seconds") {
      options.seconds = static_cast<double>(number(word, value));
    } else if (word == "--executions") {
      options.executions = number(word, value);
    } else if (word == "--seed") {
      options.seed = number(word, value);
    } else if (word == "--first") {
      options.first = number(word, value);
    } else if (word == "--workers") {
      options.workers = static_cast<int>(std::min<std::uint64_t>(number(word, value), 1'001));
      if (options.workers < 1 || options.workers > 1'000) fail(fmt::format("--workers {}: must be from 1 to 1000", value));
    } else if (word == "--findings") {
      options.findings = value;
    } else if (word == "--replay") {
      options.replay = value;
    } else {
      fail(word + ": unknown option");
    }
  }
  if (options.seconds == 0 && options.executions == 0) options.seconds = 60;
  return options;
}

std::vector<fuzz::Target> chosen(const Options& options, const fs::path& folder) {
  std::vector<fuzz::Target> all = fuzz::all_targets(folder), targets;
  std::string names;
  for (const fuzz::Target& target : all) names += " " + target.name;
  for (const std::string& name : options.parsers) {
    const auto found = std::find_if(all.begin(), all.end(), [&](const auto& target) { return target.name == name; });
    if (found == all.end()) fail(fmt::format("{}: unknown parser; known:{}", name, names));
    targets.push_back(*found);
  }
  return targets.empty() ? all : targets;
}

int replay(const fuzz::Target& target, const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) fail(file.string() + ": cannot be read");
  const std::string input{std::istreambuf_iterator<char>(stream), {}};
  const auto fault = fuzz::fault_of(target, input);
  fmt::print("{}: {}\n", target.name, fault.value_or("nothing is wrong"));
  return fault ? 1 : 0;
}

void save(const Options& options, const fuzz::Target& target, const fuzz::Finding& finding) {
  const fs::path file = options.findings / fmt::format("fuzz-{}-{}-{}", target.name, options.seed, finding.execution);
  std::ofstream(file, std::ios::binary) << finding.input;
  fmt::print(stderr, "fuzz: {}: {}\nfuzz: again with: --replay {} {}, or --seed {} --first {} --executions 1 {}\n", target.name,
             finding.what, file.string(), target.name, options.seed, finding.execution, target.name);
}

bool report(const std::string& parser, const fuzz::WorkersOutcome& outcome) {
  using pipetrain::bench::Limit;
  const std::string name = "fuzz " + parser;
  bool pass =
      pipetrain::bench::report(name + " executions", static_cast<double>(outcome.executions), "executions", Limit::at_least, 1);
  pipetrain::bench::report(name + " accepted", static_cast<double>(outcome.accepted), "executions");
  pipetrain::bench::report(name + " rate", static_cast<double>(outcome.executions) / outcome.seconds, "executions/s");
  pipetrain::bench::report(name + " rate a core", static_cast<double>(outcome.executions) / outcome.cpu_seconds,
                           "executions/s");
  pass &= pipetrain::bench::report(name + " slowest", outcome.slowest, "s", Limit::at_most, fuzz::most_cpu_seconds);
  pass &= pipetrain::bench::report(name + " memory", static_cast<double>(outcome.most_heap), "bytes", Limit::at_most,
                                   static_cast<double>(fuzz::most_heap_bytes));
  pass &= pipetrain::bench::report(name + " failed processes", outcome.failed, "processes", Limit::at_most, 0);
  return pass &
         pipetrain::bench::report(name + " findings", static_cast<double>(outcome.findings), "findings", Limit::at_most, 0);
}

// Runs all parsers one after the other, and says in one line what was done. Returns true if nothing was found.
bool fuzz_all(const Options& options, const std::vector<std::string>& parsers) {
  const auto share = static_cast<double>(parsers.size());
  const fuzz::Limits limits{(options.executions + parsers.size() - 1) / parsers.size(), options.seconds / share};
  bool pass = true;
  std::uint64_t findings = 0;
  double seconds = 0;
  std::string done;
  for (const std::string& parser : parsers) {
    const fuzz::WorkersRun run{parser, options.seed, options.first, limits, options.workers};
    const fuzz::WorkersOutcome outcome =
        fuzz::fuzz_over(run, [&](const fuzz::Target& target, const fuzz::Finding& finding) { save(options, target, finding); });
    pass &= report(parser, outcome);
    findings += outcome.findings;
    seconds += outcome.seconds;
    done += fmt::format("{}{} {}", done.empty() ? "" : ", ", parser, outcome.executions);
  }
  fmt::print(stderr, "fuzz: executions: {}; seed {}, {} at a time, {:.0f} s, findings: {}\n", done, options.seed,
             options.workers, seconds, findings);
  return pass;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse({argv + 1, argv + argc});
  const fuzz::WorkFolder folder;
  const std::vector<fuzz::Target> targets = chosen(options, folder.path());
  if (options.replay) return replay(targets.front(), *options.replay);
  std::vector<std::string> parsers;
  for (const fuzz::Target& target : targets) parsers.push_back(target.name);
  return fuzz_all(options, parsers) ? 0 : 1;
}
