// The files by which `pipetrain relayout` asks a live run for another layout, and by which the run answers. They are in the
// run's --save folder, and appear whole or not at all.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace pipetrain {

struct RelayoutRequest {
  std::string id;                      // of the command that asks
  std::vector<std::string> arguments;  // {"--pp", "4"}
};

// The name of the argument that asks for a number of processes.
inline constexpr const char* nproc_argument = "--nproc";

struct RelayoutAnswer {
  std::string id;  // of the request
  bool changed = false;
  std::string text;  // for people; the reason where the layout stays as it was
};

// Throw Error where the folder cannot be written.
void write_request(const std::filesystem::path& folder, const RelayoutRequest& request);
void write_answer(const std::filesystem::path& folder, const RelayoutAnswer& answer);

// True while a run has not taken a request.
bool is_request_waiting(const std::filesystem::path& folder);
// Returns the request and removes its file; no value where there is none, or a file that is damaged.
std::optional<RelayoutRequest> take_request(const std::filesystem::path& folder);
// Returns the answer to this request and removes its file.
std::optional<RelayoutAnswer> take_answer(const std::filesystem::path& folder, const std::string& id);
// Removes what commands and runs that have ended have left.
void remove_relayout_files(const std::filesystem::path& folder);

// Returns the arguments of both, of which the later ones win.
std::vector<std::string> merged_arguments(const std::vector<std::string>& first, const std::vector<std::string>& later);
// Removes an option and its value from the arguments, and returns the value; no value where it is not given.
std::optional<std::string> take_argument(std::vector<std::string>& arguments, const std::string& option);

// One argument a line. Throws Error(input) for an argument with a line end.
std::string to_lines(const std::vector<std::string>& arguments);
std::vector<std::string> lines_of(const std::string& text);

}  // namespace pipetrain
