#include "apps/command_line.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <functional>
#include <new>
#include <string_view>

#include "apps/doctor.hpp"
#include "apps/signals.hpp"
#include "apps/simulate.hpp"
#include "apps/train.hpp"
#include "apps/tune.hpp"
#include "core/error.hpp"
#include "core/nearest_name.hpp"

namespace pipetrain {

namespace {

struct Command {
  std::string name;
  std::function<std::string()> help;
  std::function<int(const std::vector<std::string>& arguments, const Environment&)> run;
};

// A command of later: its page says what it will be for, running it is an error.
Command later(const std::string& name, const std::string& purpose) {
  return {name, [=] { return fmt::format("pipetrain {}: {}. Not built yet.\n", name, purpose); },
          [=](const auto&, const auto&) -> int {
            throw Error(ErrorKind::input,
                        fmt::format("{}: this command is not built yet; pipetrain --help tells what there is", name));
          }};
}

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
      {"tune", tune_help,
       [](const auto& arguments, const Environment& environment) {
         return run_tune(parse_tune_options(arguments, environment));
       }},
      {"doctor", doctor_help, run_doctor},
      later("launch", "start a run over several hosts"),
      later("tokenize", "turn text into a token file"),
      later("generate", "write text with a trained model"),
      later("export", "turn a checkpoint into a Hugging Face folder"),
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
                          nearest ? fmt::format("did you mean {}?", *nearest) : "pipetrain --help tells what there is"));
}

bool asks_for(const std::vector<std::string>& arguments, std::string_view option) {
  return std::find(arguments.begin(), arguments.end(), option) != arguments.end();
}

// "help COMMAND" and "COMMAND help" are "COMMAND --help".
int run_command(std::vector<std::string> arguments, const Environment& environment) {
  const auto take_word = [&](std::string_view word) {
    const bool there = !arguments.empty() && arguments.front() == word;
    if (there) arguments.erase(arguments.begin());
    return there;
  };
  bool wants_help = take_word("help");
  std::string name = "train";
  if (!arguments.empty() && !arguments.front().starts_with('-')) {
    name = arguments.front();
    arguments.erase(arguments.begin());
  }
  const Command& command = find_command(name);
  wants_help = take_word("help") || wants_help || asks_for(arguments, "--help") || asks_for(arguments, "-h");
  if (wants_help) {
    fmt::print("{}", command.help());
    return 0;
  }
  if (asks_for(arguments, "--version")) {
    fmt::print("pipetrain {}\n", PIPETRAIN_VERSION);
    return 0;
  }
  return command.run(arguments, environment);
}

}  // namespace

// One line whatever the text holds.
void print_error(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return std::iscntrl(c) != 0; }, ' ');
  fmt::print(stderr, "pipetrain: error: {}\n", text);
}

int run_command_line(const std::vector<std::string>& arguments, const Environment& environment) {
  const SignalWatch watch;
  try {
    return run_command(arguments, environment);
  } catch (const Error& error) {
    print_error(error.what());
    return exit_status(error.kind());
  } catch (const std::bad_alloc&) {
    print_error("the host is out of memory; use a smaller model, --microbatch or --seq-len");
  } catch (const std::exception& error) {
    print_error(fmt::format("internal error: {}; this is a bug, please report it", error.what()));
  }
  return 1;
}

Environment process_environment() {
  Environment variables;
  for (char** entry = environ; *entry; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equals = text.find('=');
    if (text.starts_with("PIPETRAIN_") && equals != std::string_view::npos)
      variables.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return variables;
}

}  // namespace pipetrain
