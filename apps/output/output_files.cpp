#include "apps/output/output_files.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <mutex>
#include <ostream>
#include <set>
#include <string_view>
#include <system_error>

#include "apps/output/output_target.hpp"
#include "apps/signals/signal_safe_lock.hpp"
#include "core/parsing.hpp"

namespace pipetrain {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view draft_suffix = ".partial";

SignalSafeLock unfinished_lock;
// The temporary files that exist now. Never destroyed, because a signal handler may read it until the process has ended.
std::set<fs::path>& unfinished = *new std::set<fs::path>;

// Returns the draft's path, next to its target and with the number of this process.
fs::path draft_of(const fs::path& target) { return fmt::format("{}.{}{}", target.string(), ::getpid(), draft_suffix); }

// Returns the process that writes this draft of `target`; 0 if the name is not a draft's.
pid_t writer_of(std::string_view name, const std::string& target) {
  if (!name.starts_with(target + ".") || !name.ends_with(draft_suffix)) return 0;
  name.remove_prefix(target.size() + 1);
  if (name.size() <= draft_suffix.size()) return 0;
  name.remove_suffix(draft_suffix.size());
  return std::max(number_from<pid_t>(name).value_or(0), 0);
}

// Removes drafts of `target` that killed processes left: no process of their number lives on this host. A draft that
// another host writes at this moment looks the same; that run then fails with an error, and this one's file is kept.
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

void write_stream(const std::string& option, const OutputTarget& target, const std::function<void(std::ostream&)>& write) {
  OutputStream stream(option, target);
  OutputStreamBuffer buffer(stream);
  std::ostream out(&buffer);
  out.exceptions(std::ios::badbit);  // so that the stream's own error is thrown
  write(out);
  out.flush();
}

}  // namespace

OutputFiles::~OutputFiles() {
  const std::lock_guard lock(unfinished_lock);
  std::error_code ignored;
  for (const File& file : files_) {
    fs::remove(file.temporary, ignored);
    unfinished.erase(file.temporary);
  }
}

void OutputFiles::add(const std::string& option, const fs::path& path, const std::function<void(std::ostream&)>& write) {
  const OutputTarget target = output_target(option, path);
  if (target.is_stream()) return write_stream(option, target, write);
  remove_abandoned_drafts(target.file);
  files_.push_back({option, path, draft_of(target.file), target.file});
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
    if (error) fail_write(file.option, file.path, error.value());
  }
  for (const File& file : files_) unfinished.erase(file.temporary);
  files_.clear();
}

void remove_unfinished_outputs() {
  if (!unfinished_lock.lock_for_good()) return;
  for (const fs::path& temporary : unfinished) ::unlink(temporary.c_str());
}

}  // namespace pipetrain
