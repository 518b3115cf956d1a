#include "apps/relayout/relayout_files.hpp"

#include <algorithm>
#include <iterator>
#include <ostream>
#include <sstream>

#include "apps/output/output_files.hpp"
#include "core/error.hpp"
#include "files/file_io.hpp"

namespace pipetrain {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t longest_relayout_text = 1 << 16;

fs::path request_file(const fs::path& folder) { return folder / "relayout.request"; }
fs::path answer_file(const fs::path& folder) { return folder / "relayout.answer"; }

void put_lines(const fs::path& file, const std::string& text) {
  OutputFiles files;
  files.add("save", file, [&](std::ostream& out) { out << text; });
  files.put_in_place();
}

// Returns the file's lines; none where it does not exist.
std::vector<std::string> read_lines(const fs::path& file) {
  std::error_code error;
  if (!fs::exists(file, error)) return {};
  try {
    return lines_of(read_text(file, longest_relayout_text));
  } catch (const Error&) {
    return {};
  }
}

void remove_file(const fs::path& file) {
  std::error_code gone;
  fs::remove(file, gone);
}

}  // namespace

namespace {

// The options are in the form {"--pp", "4"}, and no value begins with two dashes.
bool names_option(const std::string& argument) { return argument.starts_with("--"); }

}  // namespace

std::vector<std::string> merged_arguments(const std::vector<std::string>& first, const std::vector<std::string>& later) {
  std::vector<std::string> merged;
  bool kept = true;
  for (const std::string& argument : first) {
    if (names_option(argument)) kept = std::find(later.begin(), later.end(), argument) == later.end();
    if (kept) merged.push_back(argument);
  }
  merged.insert(merged.end(), later.begin(), later.end());
  return merged;
}

std::optional<std::string> take_argument(std::vector<std::string>& arguments, const std::string& option) {
  const auto found = std::find(arguments.begin(), arguments.end(), option);
  if (found == arguments.end() || std::next(found) == arguments.end()) return {};
  std::string value = *std::next(found);
  arguments.erase(found, std::next(found, 2));
  return value;
}

std::string to_lines(const std::vector<std::string>& arguments) {
  std::string text;
  for (const std::string& argument : arguments) {
    if (argument.find('\n') != std::string::npos)
      throw Error(ErrorKind::input, "relayout: an argument has a line end; leave it out");
    text += argument + '\n';
  }
  return text;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

void write_request(const fs::path& folder, const RelayoutRequest& request) {
  put_lines(request_file(folder), request.id + '\n' + to_lines(request.arguments));
}

void write_answer(const fs::path& folder, const RelayoutAnswer& answer) {
  put_lines(answer_file(folder), answer.id + '\n' + (answer.changed ? "changed\n" : "kept\n") + answer.text + '\n');
}

bool is_request_waiting(const fs::path& folder) {
  std::error_code error;
  return fs::exists(request_file(folder), error);
}

std::optional<RelayoutRequest> take_request(const fs::path& folder) {
  const std::vector<std::string> lines = read_lines(request_file(folder));
  remove_file(request_file(folder));
  if (lines.size() < 2) return {};
  return RelayoutRequest{lines.front(), {lines.begin() + 1, lines.end()}};
}

std::optional<RelayoutAnswer> take_answer(const fs::path& folder, const std::string& id) {
  const std::vector<std::string> lines = read_lines(answer_file(folder));
  if (lines.size() < 3 || lines.front() != id) return {};
  remove_file(answer_file(folder));
  return RelayoutAnswer{id, lines[1] == "changed", lines[2]};
}

void remove_relayout_files(const fs::path& folder) {
  remove_file(request_file(folder));
  remove_file(answer_file(folder));
}

}  // namespace pipetrain
