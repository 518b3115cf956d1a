#include "records/event_file.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <string>

#include "core/error.hpp"
#include "files/made_folders.hpp"

namespace pipetrain {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view name_begin = "events.out.tfevents.";

double now_seconds() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

// Returns the latest SECONDS of event files in the folder; 0 if there are none.
std::int64_t latest_of(const fs::path& folder) {
  std::int64_t latest = 0;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    std::int64_t seconds = 0;
    if (name.starts_with(name_begin)) std::from_chars(name.data() + name_begin.size(), name.data() + name.size(), seconds);
    latest = std::max(latest, seconds);
  }
  return latest;
}

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "host";
  std::string text = name.data();
  std::replace(text.begin(), text.end(), '/', '_');
  return text.empty() ? "host" : text;
}

}  // namespace

EventFile::EventFile(const fs::path& folder, std::int64_t steps_done) {
  std::error_code error;
  made_ = make_folders(folder, error);
  try {
    if (error)
      throw Error(ErrorKind::input, Setting{"tensorboard", folder.string()},
                  fmt::format("cannot be made ({}); give another folder", error.message()));
    constexpr std::int64_t ten_digits = 9'999'999'999;  // more digits would no longer sort by name
    const auto seconds = std::min(std::max(static_cast<std::int64_t>(now_seconds()), latest_of(folder) + 1), ten_digits);
    path_ = folder / fmt::format("{}{:010}.{}.{}", name_begin, seconds, host_name(), ::getpid());
    file_.emplace(path_);
    const std::string begin =
        framed_record(version_event(now_seconds())) + framed_record(start_event(now_seconds(), steps_done + 1));
    file_->write(begin.data(), begin.size());
  } catch (...) {
    take_back();
    throw;
  }
}

EventFile::~EventFile() {
  if (!has_steps_) take_back();
}

// Keeps other files, and the folders above them.
void EventFile::take_back() noexcept {
  if (file_) ::unlink(path_.c_str());
  file_.reset();
  remove_empty_folders(made_);
}

void EventFile::write(std::int64_t step, const std::vector<Scalar>& scalars) {
  const std::string record = framed_record(scalars_event(now_seconds(), step, scalars));
  file_->write(record.data(), record.size());
  has_steps_ = true;
}

}  // namespace pipetrain
