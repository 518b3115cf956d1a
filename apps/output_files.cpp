#include "apps/output_files.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <set>
#include <system_error>

#include "core/error.hpp"
#include "data/dataset.hpp"

namespace pipetrain {

namespace fs = std::filesystem;

namespace {

std::mutex unfinished_mutex;
std::set<fs::path> unfinished;  // temporaries that are there now

[[noreturn]] void fail_write(const std::string& option, const fs::path& path, int reason) {
  throw Error(ErrorKind::input, fmt::format("--{} {}: cannot be written ({}); check the disk and the permissions", option,
                                            path.string(), std::strerror(reason)));
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
  const std::lock_guard lock(unfinished_mutex);
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
  files_.push_back({option, path.string() + fmt::format(".{}.partial", ::getpid()), path});
  std::ofstream out;
  {
    const std::lock_guard lock(unfinished_mutex);
    unfinished.insert(files_.back().temporary);
    out.open(files_.back().temporary, std::ios::binary | std::ios::trunc);
  }
  if (out) write(out);
  out.close();
  if (!out) fail_write(option, path, errno);
}

void OutputFiles::put_in_place() {
  const std::lock_guard lock(unfinished_mutex);
  for (const File& file : files_) {
    std::error_code error;
    fs::rename(file.temporary, file.target, error);
    if (error) fail_write(file.option, file.target, error.value());
  }
  for (const File& file : files_) unfinished.erase(file.temporary);
  files_.clear();
}

void remove_unfinished_outputs() {
  unfinished_mutex.lock();  // never unlocked
  std::error_code ignored;
  for (const fs::path& temporary : unfinished) fs::remove(temporary, ignored);
}

}  // namespace pipetrain
