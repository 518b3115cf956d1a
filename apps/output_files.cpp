#include "apps/output_files.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <set>
#include <string_view>
#include <system_error>

#include "apps/signal_safe_lock.hpp"
#include "core/error.hpp"
#include "data/dataset.hpp"

namespace pipetrain {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view draft_suffix = ".partial";

SignalSafeLock unfinished_lock;
// Temporaries that are there now. Never destroyed: a signal's handler may look until the process has ended.
std::set<fs::path>& unfinished = *new std::set<fs::path>;

[[noreturn]] void fail_write(const std::string& option, const fs::path& path, int reason) {
  throw Error(ErrorKind::input, fmt::format("--{} {}: cannot be written ({}); check the disk and the permissions", option,
                                            path.string(), std::strerror(reason)));
}

// Beside its target, with the process that writes it.
fs::path draft_of(const fs::path& target) { return fmt::format("{}.{}{}", target.string(), ::getpid(), draft_suffix); }

// The process that writes this draft of `target`; 0 where the name is not that of one.
pid_t writer_of(std::string_view name, const std::string& target) {
  if (!name.starts_with(target + ".") || !name.ends_with(draft_suffix)) return 0;
  name.remove_prefix(target.size() + 1);
  if (name.size() <= draft_suffix.size()) return 0;
  name.remove_suffix(draft_suffix.size());
  pid_t process = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), process);
  return error == std::errc() && end == name.data() + name.size() && process > 0 ? process : 0;
}

// Drafts of `target` that killed processes left behind: no process of their number lives here. One that another host writes at
// this moment looks the same; that run then fails with a line, and this one's file stands.
void remove_abandoned_drafts(const fs::path& target) {
  const fs::path folder = target.has_parent_path() ? target.parent_path() : fs::path(".");
  std::error_code error, ignored;
  std::vector<fs::path> abandoned;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const pid_t writer = writer_of(entry->path().filename().string(), target.filename().string());
    if (writer != 0 && ::kill(writer, 0) != 0 && errno == ESRCH) abandoned.push_back(entry->path());
  }
  for (const fs::path& draft : abandoned) fs::remove(draft, ignored);
}

}  // namespace

std::optional<fs::path> output_file(const OptionValues& values, const std::string& name) {
  const auto text = values.text(name);
  if (!text) return std::nullopt;
  const fs::path path = *text;
  if (path == "-") values.fail(name, "would be a file of that name; write /dev/stdout for the standard output, or ./-");
  const fs::path parent = path.has_parent_path() ? path.parent_path() : fs::path(".");
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) values.fail(name, "is a folder; give a file");
  if (!fs::is_directory(parent, ignored))
    values.fail(name, fmt::format("there is no folder {}; make it first", parent.string()));
  const bool writable = fs::exists(path, ignored) ? ::access(path.c_str(), W_OK) == 0 : ::access(parent.c_str(), W_OK) == 0;
  if (!writable) values.fail(name, "cannot be written; check the permissions");
  return path;
}

void check_input_file(const OptionValues& values, const std::string& name) {
  const fs::path path = values.text(name).value_or("");
  std::error_code ignored;
  if (!fs::exists(path, ignored)) values.fail(name, "there is no such file; check the path");
  if (fs::is_directory(path, ignored)) values.fail(name, "is a folder; give a file");
}

void refuse_shared_files(const OptionValues& values, const std::vector<std::string>& outputs,
                         const std::vector<std::string>& inputs) {
  std::error_code ignored;
  const auto place = [&](const std::string& text) { return fs::weakly_canonical(fs::absolute(text, ignored), ignored); };
  std::map<fs::path, std::string> taken;
  for (const std::string& name : inputs)
    for (const std::string& text : values.list(name))
      if (const fs::path path = name == "data" ? parse_data_input(text).path : fs::path(text);
          fs::is_regular_file(path, ignored))
        taken.emplace(place(path.string()), "--" + name + " reads");
  for (const std::string& name : outputs) {
    const auto text = values.text(name);
    if (!text) continue;
    const bool shareable =
        fs::exists(*text, ignored) && !fs::is_regular_file(*text, ignored) && !fs::is_directory(*text, ignored);
    const auto [other, free] = taken.emplace(place(*text), "--" + name + " writes");
    if (!free && !shareable) values.fail(name, fmt::format("{} there too; give each its own place", other->second));
  }
}

OutputFiles::~OutputFiles() {
  const std::lock_guard lock(unfinished_lock);
  std::error_code ignored;
  for (const File& file : files_) {
    fs::remove(file.temporary, ignored);
    unfinished.erase(file.temporary);
  }
}

void OutputFiles::add(const std::string& option, const fs::path& path, const std::function<void(std::ostream&)>& write) {
  std::error_code ignored;
  if (fs::exists(path, ignored) &&
      !fs::is_regular_file(path, ignored)) {  // such as /dev/stdout: nothing can be put in its place
    std::ofstream out(path, std::ios::binary);
    write(out);
    if (!out.flush()) fail_write(option, path, errno);
    return;
  }
  remove_abandoned_drafts(path);
  files_.push_back({option, draft_of(path), path});
  std::ofstream out;
  {
    const std::lock_guard lock(unfinished_lock);
    unfinished.insert(files_.back().temporary);
    out.open(files_.back().temporary, std::ios::binary | std::ios::trunc);
  }
  if (out) write(out);
  out.close();
  if (!out) fail_write(option, path, errno);
}

void OutputFiles::put_in_place() {
  const std::lock_guard lock(unfinished_lock);
  for (const File& file : files_) {
    std::error_code error;
    fs::rename(file.temporary, file.target, error);
    if (error) fail_write(file.option, file.target, error.value());
  }
  for (const File& file : files_) unfinished.erase(file.temporary);
  files_.clear();
}

void remove_unfinished_outputs() {
  if (!unfinished_lock.lock_for_good()) return;
  for (const fs::path& temporary : unfinished) ::unlink(temporary.c_str());
}

}  // namespace pipetrain
