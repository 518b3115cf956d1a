#include "apps/options/option_files.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <system_error>
#include <tuple>

#include "apps/output/output_target.hpp"
#include "data/formats/formats.hpp"
#include "data/open_dataset.hpp"
#include "files/file_io.hpp"

namespace pipetrain {

namespace fs = std::filesystem;

namespace {

fs::path folder_of_option(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : fs::path("."); }

// A file or folder, however it is called: the deepest part of its path that is there, and the names below that are not.
struct Place {
  dev_t device = 0;
  ino_t inode = 0;
  fs::path missing;
  bool operator<(const Place& other) const {
    return std::tie(device, inode, missing) < std::tie(other.device, other.inode, other.missing);
  }
  bool operator==(const Place& other) const = default;
};

Place place_of(const fs::path& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0) return {info.st_dev, info.st_ino, {}};
  std::error_code ignored;
  fs::path there = fs::weakly_canonical(fs::absolute(path, ignored), ignored), missing;
  while (::stat(there.c_str(), &info) != 0 && there.has_relative_path()) {
    missing = missing.empty() ? there.filename() : there.filename() / missing;
    there = there.parent_path();
  }
  return {info.st_dev, info.st_ino, missing};
}

bool is_within(const fs::path& path, const fs::path& folder) {
  std::error_code ignored;
  const Place outer = place_of(folder);
  for (fs::path at = fs::weakly_canonical(fs::absolute(path, ignored), ignored);; at = at.parent_path()) {
    if (place_of(at) == outer) return true;
    if (!at.has_relative_path()) return false;
  }
}

std::vector<fs::path> paths_of(const OptionValues& values, const std::string& name) {
  std::vector<fs::path> paths;
  for (const std::string& text : values.list(name)) {
    if (!name.ends_with("data")) {
      paths.emplace_back(text);
      continue;
    }
    for (fs::path& path : matching_paths(parse_data_input(text).path)) paths.push_back(std::move(path));
  }
  return paths;
}

// Who uses the regular files.
class Users {
 public:
  explicit Users(const OptionValues& values) : values_(values) {}

  void add_input(const std::string& option) {
    std::error_code ignored;
    for (const fs::path& path : paths_of(values_, option)) {
      if (fs::is_directory(path, ignored)) {
        folders_.emplace(place_of(path), "--" + option + " reads");
        for (fs::directory_iterator entry(path, ignored), end; entry != end; entry.increment(ignored))
          add_read(entry->path(), option);
      } else {
        add_read(path, option);
      }
    }
  }
  void add_printed(int descriptor, const char* name) {
    struct stat info {};
    if (::fstat(descriptor, &info) == 0 && S_ISREG(info.st_mode))
      users_.emplace(Place{info.st_dev, info.st_ino, {}}, User{std::string(name) + " goes", true});
  }
  void add_output_folder(const std::string& option) {
    const auto path = values_.text(option);
    if (!path) return;
    const Place place = place_of(*path);
    if (const auto folder = folders_.find(place); folder != folders_.end()) fail(option, folder->second);
    if (const auto [user, free] = users_.emplace(place, User{"--" + option + " writes", false}); !free)
      fail(option, user->second.what);
  }
  void add_output_file(const std::string& option) {
    const auto path = values_.text(option);
    if (!path) return;
    const OutputTarget target = output_target(option, *path);
    const fs::path file = target.is_stream() ? fs::path(*path) : target.file;
    std::error_code ignored;
    if (target.is_stream() && !fs::is_regular_file(file, ignored)) return;
    if (!target.is_stream()) {
      if (const auto folder = folders_.find(place_of(folder_of_option(file))); folder != folders_.end())
        values_.fail(option, fmt::format("is in the folder that {}; give a path outside it", folder->second));
    }
    const auto [user, free] = users_.emplace(place_of(file), User{"--" + option + " writes", target.is_stream()});
    if (!free && !(user->second.streams && target.is_stream())) fail(option, user->second.what);
  }

 private:
  struct User {
    std::string what;
    bool streams;
  };

  [[noreturn]] void fail(const std::string& option, const std::string& other) const {
    values_.fail(option, fmt::format("{} there too; give each its own path", other));
  }
  void add_read(const fs::path& file, const std::string& option) {
    std::error_code ignored;
    if (fs::is_regular_file(file, ignored)) users_.emplace(place_of(file), User{"--" + option + " reads", false});
  }

  const OptionValues& values_;
  std::map<Place, User> users_;
  std::map<Place, std::string> folders_;
};

// Returns true for a file that --save may replace or remove: its model, its checkpoints, its results and its lock file.
bool belongs_to_save(const fs::path& file, const fs::path& save) {
  std::error_code ignored;
  fs::path below = fs::weakly_canonical(fs::absolute(file, ignored), ignored)
                       .lexically_relative(fs::weakly_canonical(fs::absolute(save, ignored), ignored));
  if (below.empty()) return false;
  const std::string first = below.begin()->string();
  const bool inside = std::next(below.begin()) != below.end();
  return first == ".pipetrain.lock" || first == "results.json" || (inside && (first == "model" || first.starts_with("step-")));
}

void check_save(const OptionValues& values, const OptionFiles& options) {
  const auto save = values.text("save");
  if (!save || std::count(options.output_folders.begin(), options.output_folders.end(), "save") == 0) return;
  const auto check = [&](const std::string& option, const fs::path& path) {
    if (belongs_to_save(path, *save))
      values.fail(option, "is where --save writes its model and checkpoints; give another path");
  };
  for (const std::string& option : options.output_files)
    if (const auto path = values.text(option)) check(option, output_target(option, *path).file);
  for (const std::string& option : options.output_folders)
    if (const auto path = values.text(option); path && option != "save") check(option, fs::path(*path) / "file");
  if (const auto load = values.text("load"); load && is_within(*save, *load))
    values.fail("save", fmt::format("is in the checkpoint that --load reads, {}; give a path outside it", *load));
  std::error_code ignored;
  if (const auto model = values.text("model");
      model && fs::is_directory(*model, ignored) && place_of(*model) == place_of(fs::path(*save) / "model"))
    values.fail("save", fmt::format("would replace {}, which --model reads, by the trained model; give another folder",
                                    (fs::path(*save) / "model").string()));
}

}  // namespace

std::optional<fs::path> output_file(const OptionValues& values, const std::string& name, Written how) {
  const auto text = values.text(name);
  if (!text) return std::nullopt;
  const fs::path path = *text;
  if (path == "-") values.fail(name, "would be a file of that name; write /dev/stdout for the standard output, or ./-");
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) values.fail(name, "is a folder; give a file");
  const OutputTarget target = output_target(name, path);
  const auto can_write = [](const fs::path& place) { return ::access(place.c_str(), W_OK) == 0; };
  if (target.is_stream()) {
    if (!target.descriptor && !can_write(path)) values.fail(name, "cannot be written; check the permissions");
    return path;
  }
  const fs::path folder = folder_of_option(target.file);
  if (!fs::is_directory(folder, ignored))
    values.fail(name, fmt::format("there is no folder {}; make it first", folder.string()));
  const bool exists = fs::exists(target.file, ignored);
  if (exists && !can_write(target.file)) values.fail(name, "cannot be written; check the permissions");
  if ((!exists || how == Written::whole) && !can_write(folder))
    values.fail(name, fmt::format("the folder {} cannot be written; check the permissions", folder.string()));
  return path;
}

std::optional<fs::path> output_folder(const OptionValues& values, const std::string& name) {
  const auto text = values.text(name);
  if (!text) return std::nullopt;
  const fs::path path = *text;
  std::error_code error;
  fs::path existing = fs::absolute(path, error);
  const fs::path real = fs::weakly_canonical(existing, error);
  if (error) values.fail(name, fmt::format("cannot be used ({}); {}", error.message(), remedy_of_write_failure(error.value())));
  if (!real.has_relative_path()) values.fail(name, "is the root of the file system; give a folder of its own");
  while (!fs::exists(fs::symlink_status(existing, error)) && existing.has_relative_path()) existing = existing.parent_path();
  if (!fs::is_directory(existing, error)) values.fail(name, fmt::format("{} is not a folder; give another", existing.string()));
  if (::access(existing.c_str(), W_OK | X_OK) != 0)
    values.fail(name, fmt::format("the folder {} cannot be written; check the permissions", existing.string()));
  return path;
}

void refuse_unreadable(const OptionValues& values, const std::string& name) {
  const fs::path path = values.text(name).value_or("");
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) return;
  const int wanted = fs::is_directory(status) ? R_OK | X_OK : R_OK;
  if (!error && ::access(path.c_str(), wanted) != 0) error = std::error_code(errno, std::generic_category());
  if (error) values.fail(name, fmt::format("cannot be read ({}); {}", error.message(), remedy_of_read_failure(error.value())));
}

void check_input_file(const OptionValues& values, const std::string& name) {
  const fs::path path = values.text(name).value_or("");
  std::error_code error, ignored;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) values.fail(name, "there is no such file; check the path");
  if (error) values.fail(name, fmt::format("cannot be read ({}); {}", error.message(), remedy_of_read_failure(error.value())));
  if (fs::is_directory(path, ignored)) values.fail(name, "is a folder; give a file");
  if (!fs::is_regular_file(path, ignored)) values.fail(name, "is no regular file; give a file, not a pipe or a device");
}

void refuse_shared_files(const OptionValues& values, const OptionFiles& options) {
  const auto given = [&](const std::string& option) { return values.given(option); };
  if (std::none_of(options.output_files.begin(), options.output_files.end(), given) &&
      std::none_of(options.output_folders.begin(), options.output_folders.end(), given))
    return;  // folders of data may be large
  Users users(values);
  for (const std::string& option : options.inputs) users.add_input(option);
  users.add_printed(STDOUT_FILENO, "stdout");
  users.add_printed(STDERR_FILENO, "stderr");
  for (const std::string& option : options.output_folders) users.add_output_folder(option);
  for (const std::string& option : options.output_files) users.add_output_file(option);
  check_save(values, options);
}

}  // namespace pipetrain
