#include "bench/gpu/gpu_options.hpp"

#include <charconv>
#include <functional>
#include <map>
#include <sstream>
#include <utility>

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

// The words of a command line in order, with "--option=value" as two words.
class Arguments {
 public:
  explicit Arguments(const std::vector<std::string>& arguments) : arguments_(arguments) {}

  // The next option, or row; false at the end.
  bool next() {
    if (at_ == arguments_.size()) return false;
    option = arguments_[at_++];
    attached_.reset();
    if (const auto equals = option.find('='); option.starts_with("--") && equals != std::string::npos) {
      attached_ = option.substr(equals + 1);
      option.resize(equals);
    }
    return true;
  }
  std::string value() {
    if (attached_) return *attached_;
    if (at_ == arguments_.size()) fail(option + " needs a value; see --help");
    return arguments_[at_++];
  }

  std::string option;

 private:
  const std::vector<std::string>& arguments_;
  std::size_t at_ = 0;
  std::optional<std::string> attached_;
};

using ReadOption = std::function<void(GpuOptions&, Arguments&)>;

const std::map<std::string, ReadOption>& option_readers() {
  const auto text = [](std::string GpuOptions::*member) {
    return [member](GpuOptions& options, Arguments& from) { options.*member = from.value(); };
  };
  const auto count = [](int GpuOptions::*member) {
    return [member](GpuOptions& options, Arguments& from) { options.*member = number(from.option, from.value(), 1); };
  };
  const auto seconds = [](double GpuOptions::*member) {
    return [member](GpuOptions& options, Arguments& from) { options.*member = number(from.option, from.value(), 1.0); };
  };
  const auto flag = [](bool GpuOptions::*member) {
    return [member](GpuOptions& options, Arguments&) { options.*member = true; };
  };
  static const std::map<std::string, ReadOption> readers{
      {"--help", flag(&GpuOptions::help)},
      {"-h", flag(&GpuOptions::help)},
      {"--list", flag(&GpuOptions::list)},
      {"--rows",
       [](GpuOptions& options, Arguments& from) {
         for (auto& pattern : words(from.value())) options.rows.push_back(std::move(pattern));
       }},
      {"--parts", [](GpuOptions& options, Arguments& from) { options.parts = parts_of(from.value()); }},
      {"--steps", count(&GpuOptions::steps)},
      {"--warmup", count(&GpuOptions::warmup)},
      {"--rounds", count(&GpuOptions::rounds)},
      {"--budget", seconds(&GpuOptions::budget)},
      {"--total", seconds(&GpuOptions::total)},
      {"--keep", text(&GpuOptions::keep)},
      {"--results", text(&GpuOptions::results)},
      {"--child", [](GpuOptions& options, Arguments& from) { options.child = from.value(); }},
      {"--data", text(&GpuOptions::data)},
      {"--schedule", text(&GpuOptions::schedule)},
  };
  return readers;
}

}  // namespace

GpuOptions parse_gpu_options(const std::vector<std::string>& command_line) {
  GpuOptions options;
  bool no_peer = false;
  for (Arguments arguments(command_line); arguments.next();) {
    const std::string& option = arguments.option;
    if (option == "--no-peer") {  // whatever --parts says, before or after it
      no_peer = true;
    } else if (const auto reader = option_readers().find(option); reader != option_readers().end()) {
      reader->second(options, arguments);
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
