#include "apps/command_line.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <new>
#include <string_view>

#include "apps/doctor.hpp"
#include "apps/simulate.hpp"
#include "apps/train.hpp"
#include "apps/tune.hpp"
#include "core/error.hpp"
#include "core/nearest_name.hpp"

namespace pipetrain {

namespace {

const std::vector<std::string> later_commands = {"launch", "tokenize", "generate", "export"};

bool asks_for(const std::vector<std::string>& arguments, std::string_view option) {
  return std::find(arguments.begin(), arguments.end(), option) != arguments.end();
}

int run_command(std::vector<std::string> arguments, const Environment& environment) {
  std::string command = "train";
  if (!arguments.empty() && !arguments.front().starts_with('-')) {
    command = arguments.front();
    arguments.erase(arguments.begin());
  }
  if (std::find(later_commands.begin(), later_commands.end(), command) != later_commands.end())
    throw Error(ErrorKind::input,
                fmt::format("{}: this command is not built yet; pipetrain --help tells what there is", command));
  const bool wants_help = asks_for(arguments, "--help") || asks_for(arguments, "-h");
  if (command == "doctor") {
    if (!wants_help) return run_doctor(arguments, environment);
    fmt::print("{}", doctor_help());
    return 0;
  }
  if (command == "simulate" || command == "tune") {
    const bool tune = command == "tune";
    if (!wants_help)
      return tune ? run_tune(parse_tune_options(arguments, environment))
                  : run_simulate(parse_simulate_options(arguments, environment));
    fmt::print("{}", tune ? tune_help() : simulate_help());
    return 0;
  }
  if (command != "train" && command != "help") {
    std::vector<std::string> commands = later_commands;
    commands.insert(commands.end(), {"train", "simulate", "tune", "doctor"});
    const auto nearest = nearest_name(command, commands);
    throw Error(ErrorKind::input,
                fmt::format("{}: unknown command; {}", command,
                            nearest ? fmt::format("did you mean {}?", *nearest) : "pipetrain --help tells what there is"));
  }
  if (wants_help || command == "help") {
    fmt::print("{}", train_help());
    return 0;
  }
  if (asks_for(arguments, "--version")) {
    fmt::print("pipetrain {}\n", PIPETRAIN_VERSION);
    return 0;
  }
  return run_train(parse_train_options(arguments, environment, this_machine()));
}

}  // namespace

// One line whatever the text holds.
void print_error(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  fmt::print(stderr, "pipetrain: error: {}\n", text);
}

int run_command_line(const std::vector<std::string>& arguments, const Environment& environment) {
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
