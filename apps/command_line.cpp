#include "apps/command_line.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <new>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>

#include "apps/compare.hpp"
#include "apps/doctor/doctor.hpp"
#include "apps/export/export_model.hpp"
#include "apps/generate/generate.hpp"
#include "apps/help/completion.hpp"
#include "apps/help/help_topic.hpp"
#include "apps/help/man_page.hpp"
#include "apps/help/overview.hpp"
#include "apps/launch/launch.hpp"
#include "apps/launch/launch_program.hpp"
#include "apps/output/launch_report.hpp"
#include "apps/output/output_files.hpp"
#include "apps/output/output_lock.hpp"
#include "apps/output/stderr_lines.hpp"
#include "apps/relayout/relayout.hpp"
#include "apps/replay/replay.hpp"
#include "apps/signals/signals.hpp"
#include "apps/simulate/simulate.hpp"
#include "apps/tokenize/tokenize.hpp"
#include "apps/train/train.hpp"
#include "apps/tune/tune.hpp"
#include "apps/watch/watch.hpp"
#include "comm/control/launch_environment.hpp"
#include "comm/ucx/ucx_process.hpp"
#include "core/error.hpp"
#include "core/text/nearest_name.hpp"

namespace pipetrain {

namespace {

struct Command {
  std::string name;
  std::function<std::string()> help;
  std::function<int(const std::vector<std::string>& arguments, const Environment&)> run;
};

const std::vector<Command>& commands() {
  static const std::vector<Command> all = {
      {"train", train_help,
       [](const auto& arguments, const Environment& environment) {
         return run_train(parse_train_options(arguments, environment, this_machine()));
       }},
      {"simulate", simulate_help,
       [](const auto& arguments, const Environment& environment) {
         return run_simulate(parse_simulate_options(arguments, environment));
       }},
      {"replay", replay_help,
       [](const auto& arguments, const Environment& environment) {
         return run_replay(parse_replay_options(arguments, environment));
       }},
      {"tune", tune_help,
       [](const auto& arguments, const Environment& environment) {
         return run_tune(parse_tune_options(arguments, environment));
       }},
      {"doctor", doctor_help, run_doctor},
      {"launch", launch_help, run_launch},
      {"compare", compare_help, run_compare},
      {"watch", watch_help, run_watch},
      {"relayout", relayout_help, run_relayout},
      {"tokenize", tokenize_help,
       [](const auto& arguments, const Environment& environment) {
         return run_tokenize(parse_tokenize_options(arguments, environment));
       }},
      {"generate", generate_help,
       [](const auto& arguments, const Environment& environment) {
         return run_generate(parse_generate_options(arguments, environment, this_machine()));
       }},
      {"export", export_help,
       [](const auto& arguments, const Environment& environment) {
         return run_export(parse_export_options(arguments, environment));
       }},
      {"completion", completion_help, run_completion},
      {"man", man_help, run_man},
  };
  return all;
}

const Command& find_command(const std::string& name) {
  std::vector<std::string> names;
  for (const Command& command : commands()) {
    if (command.name == name) return command;
    names.push_back(command.name);
  }
  const auto nearest = nearest_name(name, names);
  throw Error(ErrorKind::input,
              fmt::format("{}: unknown command; {}", name,
                          nearest ? fmt::format("did you mean {}?", *nearest) : "pipetrain --help lists the commands"));
}

// Returns the arguments of the command itself, without those of a program that launch starts.
std::span<const std::string> own_arguments(const Command& command, const std::vector<std::string>& arguments) {
  return {arguments.data(), command.name == "launch" ? arguments_of_launch(arguments) : arguments.size()};
}

bool has_argument(std::span<const std::string> arguments, std::string_view word) {
  return std::find(arguments.begin(), arguments.end(), word) != arguments.end();
}

// Returns the word after --help or -h; no value if none follows, or the next option. The word after launch's is its program.
std::optional<std::string> word_after_help(const Command& command, std::span<const std::string> arguments) {
  const auto help =
      std::find_if(arguments.begin(), arguments.end(), [](const auto& word) { return word == "--help" || word == "-h"; });
  if (command.name == "launch" || arguments.end() - help < 2 || help[1].starts_with('-')) return std::nullopt;
  return help[1];
}

bool is_topic(const std::string& word) {
  const auto topics = help_topics();
  return std::find(topics.begin(), topics.end(), word) != topics.end();
}

void print_help(const Command& command, const std::optional<std::string>& about) {
  fmt::print("{}", about ? help_page(*find_command_summary(command.name), *about) : command.help());
}

// `pipetrain` alone in a terminal introduces itself, unless the environment holds options or a launcher's numbers.
bool wants_overview(const std::vector<std::string>& arguments, const Environment& environment) {
  const bool has_options =
      std::any_of(environment.begin(), environment.end(), [](const auto& entry) { return entry.first != "PATH"; });
  return arguments.empty() && !has_options && ::isatty(STDIN_FILENO) != 0 && ::isatty(STDOUT_FILENO) != 0;
}

void print_internal_error(const std::exception& error) {
  print_error(fmt::format("internal error: {}; this is a bug, please report it", error.what()));
}

// Runs a command. "help COMMAND" and "COMMAND help" are the same as "COMMAND --help", and "help memory" as "--help memory".
int run_command(std::vector<std::string> arguments, const Environment& environment) {
  if (wants_overview(arguments, environment)) {
    fmt::print("{}", overview());
    return 0;
  }
  const auto take_word = [&](std::string_view word) {
    const bool there = !arguments.empty() && arguments.front() == word;
    if (there) arguments.erase(arguments.begin());
    return there;
  };
  bool wants_help = take_word("help");
  std::optional<std::string> about;
  if (wants_help && !arguments.empty() && is_topic(arguments.front())) about = arguments.front();
  std::string name = "train";
  if (!about && !arguments.empty() && !arguments.front().starts_with('-')) {
    name = arguments.front();
    arguments.erase(arguments.begin());
  }
  const Command& command = find_command(name);
  const std::span<const std::string> own = own_arguments(command, arguments);
  if (!about) about = word_after_help(command, own);
  const bool help_follows = !arguments.empty() && arguments.front() == "help";
  if (wants_help || help_follows || has_argument(own, "--help") || has_argument(own, "-h")) {
    print_help(command, about);
    return 0;
  }
  if (has_argument(own, "--version")) {
    fmt::print("pipetrain {}\n", PIPETRAIN_VERSION);
    return 0;
  }
  return command.run(arguments, environment);
}

// pipetrain launch starts its processes from /proc/self/exe, so the kernel shows them as "exe" in ps and top. Threads
// that start later inherit the name.
void name_launched_process() {
  char name[16] = "";
  ::prctl(PR_GET_NAME, name);
  if (std::string_view(name) == "exe") ::prctl(PR_SET_NAME, "pipetrain");
}

// Keeps closed standard streams occupied, so that no file opened later takes their descriptor and receives what is
// printed there. Results written to such a stream fail, as they would on the closed one. Also ignores SIGPIPE: if a
// reader of results, progress or metrics goes away, the write fails, as on a full disk, and the process goes on.
void hold_standard_streams() {
  std::signal(SIGPIPE, SIG_IGN);
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) != -1) continue;
    const int held = ::open("/dev/null", stream == STDERR_FILENO ? O_WRONLY : O_RDONLY);
    if (held != stream && held >= 0) ::close(held);
  }
}

// Reports the exception that is being handled. Returns the exit status.
int report_exception() {
  try {
    throw;
  } catch (const Error& error) {
    print_error(error_line(error), error.kind());
    return error.kind() == ErrorKind::aborted && stop_signal() != 0 ? stop_signal_status() : exit_status(error.kind());
  } catch (const std::bad_alloc&) {
    print_error("the host is out of memory; use a smaller model, --microbatch or --seq-len", ErrorKind::out_of_memory);
  } catch (const std::system_error& error) {
    if (std::ferror(stdout) != 0) return 0;  // reported by check_results_written()
    if (error.code() == std::errc::resource_unavailable_try_again) {
      print_error("the host lets this process start no more threads; raise ulimit -u or -v, or use fewer devices or --threads");
    } else {
      print_internal_error(error);
    }
  } catch (const std::exception& error) {
    print_internal_error(error);
  }
  return 1;
}

int run_and_report(const std::vector<std::string>& arguments, const Environment& environment) {
  try {
    return run_command(arguments, environment);
  } catch (...) {
    return report_exception();
  }
}

void remove_outputs_and_locks() {
  remove_unfinished_outputs();
  remove_output_locks();
}

// Called for an exception that nothing catches, as when a library's thread cannot be started or has no memory.
[[noreturn]] void end_by_exception() {
  static std::atomic_flag ending;
  static thread_local bool here = false;
  if (here) std::_Exit(1);  // the code below has failed
  here = true;
  while (ending.test_and_set()) ::pause();  // another thread reports, and ends the process
  remove_outputs_and_locks();
  try {
    if (std::current_exception()) {
      report_exception();
    } else {
      print_error(
          "the host lets this process start no more threads, or has no memory for them; raise ulimit -u or -v, or use fewer devices or --threads");
    }
  } catch (...) {
    write_to_stderr("pipetrain: error: the host is out of memory; raise ulimit -v, or use a smaller model\n");
  }
  std::_Exit(1);
}

// Returns true if the reader of a pipe has gone, as in `pipetrain tokenize --show | head`.
bool reader_of_results_is_gone() {
  pollfd results{STDOUT_FILENO, 0, 0};
  return ::poll(&results, 1, 0) == 1 && (results.revents & POLLERR) != 0;
}

// A command's output is its result: if it cannot be written, the command has failed, unless its reader has gone.
// Returns the exit status.
int check_results_written(int status) {
  errno = 0;
  const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (written || status != 0 || reader_of_results_is_gone()) return status;
  print_error(fmt::format("stdout: the results cannot be written{}; make room, or send them elsewhere",
                          errno != 0 ? fmt::format(" ({})", std::strerror(errno)) : ""),
              ErrorKind::input);
  return exit_status(ErrorKind::input);
}

}  // namespace

int run_command_line(const std::vector<std::string>& arguments, const Environment& environment) {
  hold_standard_streams();
  name_launched_process();
  std::set_terminate(end_by_exception);
  connect_launch_report(environment);
  print_no_ucx_stacks();
  std::optional<SignalWatch> watch;
  try {
    watch.emplace(OutputEnd{remove_outputs_and_locks, print_over_progress});
  } catch (...) {
    return report_exception();
  }
  return check_results_written(run_and_report(arguments, environment));
}

Environment process_environment() {
  Environment variables;
  for (char** entry = environ; *entry; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equals = text.find('=');
    const std::string name(text.substr(0, equals));
    const auto& others = launch_variables();
    const bool is_used = name.starts_with("PIPETRAIN_") || name == "PATH" ||  // launch finds programs by it
                         std::find(others.begin(), others.end(), name) != others.end();
    if (equals != std::string_view::npos && is_used) variables.emplace(name, text.substr(equals + 1));
  }
  return variables;
}

}  // namespace pipetrain
