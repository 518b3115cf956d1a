#include "apps/pages/page_commands.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string_view>

namespace pipetrain::pages {

namespace {

constexpr std::string_view fence = "```";

const std::set<std::string, std::less<>> reasons = {"gpu", "hosts", "network", "minutes"};

// The programs that a line of a script can begin with. Another one needs the language `sh`.
const std::set<std::string, std::less<>> programs = {"pipetrain",
                                                     "dev",
                                                     "docker",
                                                     "apptainer",
                                                     "python3",
                                                     "python",
                                                     "pip",
                                                     "cmake",
                                                     "ninja",
                                                     "torchrun",
                                                     "mpirun",
                                                     "srun",
                                                     "sbatch",
                                                     "source",
                                                     "kill",
                                                     "head",
                                                     "export",
                                                     "cc",
                                                     "ip",
                                                     "gzip",
                                                     "deepspeed",
                                                     "tensorboard",
                                                     "sudo",
                                                     "apt",
                                                     "tar",
                                                     "git",
                                                     "curl",
                                                     "wget",
                                                     "mkdir",
                                                     "kubectl",
                                                     "takeover_demo.sh",
                                                     "relayout_demo.sh"};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::string program_of(std::string_view line) {
  const std::string_view word = line.substr(0, line.find(' '));
  return std::string(word.substr(word.rfind('/') + 1));  // without a slash: the whole word
}

bool is_call(std::string_view line) { return line.starts_with("$ ") || programs.contains(program_of(line)); }

struct Block {
  std::size_t line = 0;  // of its first line
  std::string language;
  std::vector<std::string> lines;
};

std::vector<Block> blocks_of(const std::string& text) {
  std::vector<Block> blocks;
  bool inside = false;
  std::size_t number = 0;
  for (const std::string& line : lines_of(text)) {
    ++number;
    if (line.starts_with(fence)) {
      inside = !inside;
      if (inside) blocks.push_back({number + 1, line.substr(fence.size()), {}});
    } else if (inside) {
      blocks.back().lines.push_back(line);
    }
  }
  return blocks;
}

// Returns why no test runs a block, or nothing.
std::string mark_of(const Block& block) {
  const std::size_t space = block.language.find(' ');
  if (space == std::string::npos) return "";
  std::string mark = block.language.substr(space + 1);
  if (!reasons.contains(mark))
    throw std::runtime_error("line " + std::to_string(block.line - 1) + ": unknown word '" + mark + "' after sh");
  return mark;
}

// Adds the commands after "$ ", each with the error that the page shows for it.
void add_prompts(std::vector<Commands>& found, const Block& block) {
  bool more = false;  // the command goes on in this line
  for (std::size_t i = 0; i < block.lines.size(); ++i) {
    const std::string& line = block.lines[i];
    if (more) {
      found.back().text += line + "\n";
    } else if (line.starts_with("$ ")) {
      found.push_back({block.line + i, line.substr(2) + "\n", mark_of(block), ""});
    } else if (line.starts_with("pipetrain: error: ") && !found.empty()) {
      found.back().error = line;
    }
    more = (more || line.starts_with("$ ")) && line.ends_with('\\');
  }
}

}  // namespace

std::vector<Commands> commands_of_page(const std::string& text) {
  std::vector<Commands> found;
  for (const Block& block : blocks_of(text)) {
    const bool shell = block.language == "sh" || block.language.starts_with("sh ");
    const bool plain = block.language.empty() && std::any_of(block.lines.begin(), block.lines.end(), is_call);
    if (!shell && !plain) continue;
    if (std::any_of(block.lines.begin(), block.lines.end(), [](const auto& line) { return line.starts_with("$ "); })) {
      add_prompts(found, block);
      continue;
    }
    Commands script{block.line, "", mark_of(block), ""};
    for (const std::string& line : block.lines) script.text += line + "\n";
    found.push_back(script);
  }
  return found;
}

std::vector<std::string> commands_in_prose(const std::string& text) {
  std::vector<std::string> found;
  bool inside = false;
  std::string prose;
  for (const std::string& line : lines_of(text)) {
    if (line.starts_with(fence)) inside = !inside;
    if (!inside) prose += line + " ";
  }
  for (std::size_t at = 0; (at = prose.find("`pipetrain ", at)) != std::string::npos;) {
    const std::size_t end = prose.find('`', at + 1);
    if (end == std::string::npos) break;
    found.push_back(prose.substr(at + 1, end - at - 1));
    at = end + 1;
  }
  return found;
}

std::vector<std::vector<std::string>> program_calls(const std::string& text) {
  std::vector<std::vector<std::string>> calls;
  bool inside = false;
  std::string joined;
  for (const std::string& line : lines_of(text))
    joined += line.ends_with('\\') ? line.substr(0, line.size() - 1) : line + " \n ";
  std::string word;
  std::istringstream words(joined);
  for (char c = 0; words.get(c);) {
    if (c != ' ' && c != '\n') {
      if (c != '"' && c != '\'') word += c;
      continue;
    }
    constexpr std::array<std::string_view, 8> ends = {"|", "&&", "||", "&", ">", ">>", "#", ";"};
    if (std::find(ends.begin(), ends.end(), word) != ends.end()) inside = false;
    if (inside && !word.empty()) calls.back().push_back(word);
    if (!inside && (program_of(word) == "pipetrain" || word.ends_with("<(pipetrain"))) {
      calls.emplace_back();
      inside = true;
    }
    if (c == '\n') inside = false;
    word.clear();
  }
  return calls;
}

}  // namespace pipetrain::pages
