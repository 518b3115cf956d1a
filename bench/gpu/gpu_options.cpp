#include "bench/gpu/gpu_options.hpp"

#include <charconv>
#include <sstream>

#include "core/error.hpp"

namespace pipetrain::bench {
namespace {

[[noreturn]] void fail(const std::string& what) { throw Error(ErrorKind::input, "bench gpu: " + what); }

template <class Number>
Number number(const std::string& option, const std::string& text, Number least) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= least))
    fail(option + " " + text + ": must be a number of at least " + std::to_string(least));
  return value;
}

std::vector<std::string> words(const std::string& list) {
  std::vector<std::string> parts;
  std::istringstream in(list);
  for (std::string word; std::getline(in, word, ',');) {
    if (!word.empty()) parts.push_back(word);
  }
  return parts;
}

std::set<std::string> parts_of(const std::string& list) {
  std::set<std::string> chosen;
  const auto all = GpuOptions{}.parts;
  for (const auto& part : words(list)) {
    if (part == "none") continue;
    if (all.count(part) == 0)
      fail("--parts " + part + ": use some of peer, variants, limit, shares, schedules, deterministic, or none");
    chosen.insert(part);
  }
  return chosen;
}

}  // namespace

GpuOptions parse_gpu_options(const std::vector<std::string>& arguments) {
  GpuOptions options;
  bool no_peer = false;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    std::string option = arguments[i];
    std::optional<std::string> attached;
    if (const auto equals = option.find('='); option.starts_with("--") && equals != std::string::npos) {
      attached = option.substr(equals + 1);
      option.resize(equals);
    }
    const auto value = [&]() -> std::string {
      if (attached) return *attached;
      if (++i == arguments.size()) fail(option + " needs a value; see --help");
      return arguments[i];
    };
    if (option == "--help" || option == "-h") {
      options.help = true;
    } else if (option == "--list") {
      options.list = true;
    } else if (option == "--rows") {
      for (auto& pattern : words(value())) options.rows.push_back(std::move(pattern));
    } else if (option == "--parts") {
      options.parts = parts_of(value());
    } else if (option == "--no-peer") {
      no_peer = true;
    } else if (option == "--steps") {
      options.steps = number(option, value(), 1);
    } else if (option == "--warmup") {
      options.warmup = number(option, value(), 1);
    } else if (option == "--rounds") {
      options.rounds = number(option, value(), 1);
    } else if (option == "--budget") {
      options.budget = number(option, value(), 1.0);
    } else if (option == "--total") {
      options.total = number(option, value(), 1.0);
    } else if (option == "--keep") {
      options.keep = value();
    } else if (option == "--results") {
      options.results = value();
    } else if (option == "--child") {
      options.child = value();
    } else if (option == "--data") {
      options.data = value();
    } else if (option == "--schedule") {
      options.schedule = value();
    } else if (option.starts_with("-")) {
      fail("unknown option " + option + "; see --help");
    } else {
      options.rows.push_back(option);
    }
  }
  if (no_peer) options.parts.erase("peer");
  return options;
}

std::string gpu_help() {
  return R"(bench_gpu [options] [ROW...]
Training steps on this machine's GPUs, beside PyTorch and beside what the chip's matrix and attention rates allow. A row is
named by its name or by a pattern (llama2-7b-*); without names, all that this machine has GPUs enough for.

  --list            the rows and how many GPUs each needs
  --rows A,B        the same as naming them
  --parts A,B       what is measured beside our own throughput: peer, variants (the peer's other schedules), limit, shares
                    (where a step's time goes), schedules, deterministic; or none [all]
  --no-peer         all parts but peer
  --steps N         measured in each run, after --warmup N more [6, 3]
  --rounds N        times our run and the peer's are made, in turns [1]
  --budget SECONDS  a row may take; what runs then is ended, and what is left of the row left out [600]
  --total SECONDS   all rows together may take; the same
  --keep DIR        keep metrics, traces, profiles and the output of every run there
  --results FILE    write the tables as a Markdown page, with the machine and the command

PIPETRAIN_TORCH_PEER names the peer's script, PIPETRAIN_TORCHRUN the command that starts it [torchrun]; BENCH_PROGRAM our
program, if it is not the pipetrain beside this one. One JSON line a number goes to stdout, the tables to stderr.
)";
}

}  // namespace pipetrain::bench
