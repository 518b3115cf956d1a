#include "apps/launch/launch_program.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <limits>
#include <string_view>

#include "apps/options/option_table.hpp"
#include "core/error.hpp"
#include "core/parsing.hpp"

namespace pipetrain {

namespace {

namespace fs = std::filesystem;

// Returns the options that launch takes for itself; the others belong to the program that it starts.
OptionRows own_options() {
  OptionRows table;
  for (const char* name : {"nproc", "nnodes", "node-rank", "master", "token-file"})
    table.push_back(*find_option(train_option_table(), name));
  return table;
}

// Returns the index of the program's name if only launch's own options precede it, else nothing.
std::optional<std::size_t> place_of_program(const OptionRows& own, const std::vector<std::string>& arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string_view word = arguments[i];
    if (!word.starts_with("-")) return word == "generate" ? std::nullopt : std::optional(i);
    const std::string_view name = word.substr(std::min<std::size_t>(2, word.size())), alone = name.substr(0, name.find('='));
    if (find_option(own, alone) == nullptr) return std::nullopt;
    if (alone == name) ++i;  // its value follows
  }
  return std::nullopt;
}

bool is_program(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored) && ::access(path.c_str(), X_OK) == 0;
}

// Searches as a shell does: PATH, or the system's default instead; an empty folder there is the current one.
std::string find_on_path(const std::string& name, const std::map<std::string, std::string>& environment) {
  const auto path = environment.find("PATH");
  const std::string folders = path != environment.end() ? path->second : "/bin:/usr/bin";
  for (const std::string_view folder : split(folders, ':'))
    if (const fs::path file = fs::path(folder.empty() ? "." : folder) / name; is_program(file)) return file;
  return "";
}

std::string find_program(const std::string& name, const std::map<std::string, std::string>& environment) {
  const bool is_path = name.find('/') != std::string::npos;
  const std::string file = is_path && is_program(name) ? name : is_path || name.empty() ? "" : find_on_path(name, environment);
  if (!file.empty()) return file;
  std::error_code ignored;
  if (fs::is_regular_file(name, ignored))
    throw Error(ErrorKind::input, fmt::format("launch: {} is a file that cannot be run from here; {}", name,
                                              is_path ? "make it executable (chmod +x), or give its interpreter before it"
                                                      : "write ./ before it, or give its interpreter before it"));
  throw Error(
      ErrorKind::input,
      fmt::format("launch: {} is not a program that can be run; give one, such as python script.py, or leave it out to train",
                  name));
}

}  // namespace

std::size_t arguments_of_launch(const std::vector<std::string>& arguments) {
  return place_of_program(own_options(), arguments).value_or(arguments.size());
}

std::optional<LaunchProgram> read_launch_program(const std::vector<std::string>& arguments,
                                                 const std::map<std::string, std::string>& environment) {
  const std::vector<OptionSpec> own = own_options();
  const auto place = place_of_program(own, arguments);
  if (!place) return std::nullopt;
  const auto begin = arguments.begin() + static_cast<std::ptrdiff_t>(*place);
  LaunchProgram program;
  program.words.assign(begin, arguments.end());
  const OptionValues values(own, read_command_line(own, {arguments.begin(), begin}));
  program.launch = read_launch(values, environment, std::numeric_limits<std::int64_t>::max());
  program.file = find_program(program.words.front(), environment);
  return program;
}

}  // namespace pipetrain
