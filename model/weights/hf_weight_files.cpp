#include "model/weights/hf_weight_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <string_view>
#include <utility>

#include "core/error.hpp"
#include "files/file_io.hpp"
#include "files/file_pieces.hpp"
#include "files/json.hpp"
#include "files/json_fault.hpp"

namespace pipetrain {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t most_index_bytes = 100'000'000;

// Reads the weight_map of an index and ignores its other members.
class IndexReader : public JsonEvents {
 public:
  void open(JsonKind kind) override {
    if (depth_ == 2 && in_map_) refuse_file();
    ++depth_;
    in_map_ = in_map_ || (depth_ == 2 && key_ == map_key && kind == JsonKind::object);
    found_ = found_ || in_map_;
  }
  void close() override {
    if (--depth_ == 1) in_map_ = false;
  }
  void key(std::string&& name, std::size_t line) override {
    line_ = line;
    if (depth_ == 1 && found_ && name == map_key) throw JsonFault(line, "key \"weight_map\" appears twice; keep one");
    if (depth_ == 1 || in_map_) key_ = std::move(name);
  }
  void value(Json&& value) override {
    if (!in_map_) return;
    if (!value.is_string()) refuse_file();
    auto name = value.as_string();
    if (name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos ||
        name.find('\0') != std::string::npos) {
      throw JsonFault(
          line_, fmt::format("tensor {}: file {} is not the name of a file in this folder; correct the index, or copy it again",
                             key_, value.dump({.ascii = true})));
    }
    if (!map_.emplace(key_, std::move(name)).second)
      throw JsonFault(line_, fmt::format("tensor {} appears twice; keep one", key_));
  }
  bool has_map() const { return found_; }
  WeightMap take() { return std::move(map_); }

 private:
  static constexpr const char* map_key = "weight_map";
  [[noreturn]] void refuse_file() const {
    throw JsonFault(line_, fmt::format("tensor {}: its file is not a name; correct the index, or copy it again", key_));
  }

  WeightMap map_;
  std::string key_;
  std::size_t line_ = 1;
  int depth_ = 0;
  bool in_map_ = false, found_ = false;
};

[[noreturn]] void refuse_weight_folder(const fs::path& folder, const std::string& what) {
  throw Error(ErrorKind::input, fmt::format("{}: {}", folder.string(), what));
}

// Returns the N of "NAME-00002-of-0000N.safetensors", with the number cut out of the name; 0 for other names.
std::size_t shards_of(const std::string& name, std::string& without_number) {
  constexpr std::size_t tail = std::string_view("-00002-of-00004.safetensors").size();
  if (name.size() <= tail) return 0;
  const std::size_t at = name.size() - tail;
  const auto number = [&](std::size_t from) {
    std::size_t value = 0;
    const auto [end, error] = std::from_chars(name.data() + from, name.data() + from + 5, value);
    return error == std::errc() && end == name.data() + from + 5 ? value : 0;
  };
  if (name[at] != '-' || name.compare(at + 6, 4, "-of-") != 0 || number(at + 1) == 0) return 0;
  without_number = name.substr(0, at) + name.substr(at + 6);
  return number(at + 10);
}

struct FoundNames {
  std::vector<std::string> files, indexes;
};

FoundNames list_weight_files(const fs::path& folder) {
  FoundNames found;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.ends_with(".safetensors.index.json")) found.indexes.push_back(name);
    // A checkpoint's moments use the names of the weights.
    if (name.ends_with(".safetensors") && !name.starts_with("exp_avg")) found.files.push_back(name);
  }
  if (error)
    refuse_weight_folder(
        folder, fmt::format("cannot be searched for weights: {}; {}", error.message(), remedy_of_read_failure(error.value())));
  return found;
}

}  // namespace

WeightMap read_weight_index(const fs::path& path) {
  const InputFile file(path);
  if (file.size() > most_index_bytes) {
    throw Error(ErrorKind::input, fmt::format("{}: {} bytes are more than the {} allowed; give the right file", path.string(),
                                              file.size(), most_index_bytes));
  }
  IndexReader index;
  read_json(pieces_of(file, 0, file.size()), {path.string()}, {.values = 2'000'000}, index);
  if (!index.has_map())
    throw Error(ErrorKind::input,
                fmt::format("{}: no \"weight_map\" object; correct the index, or copy it again", path.string()));
  return index.take();
}

bool has_weight_files(const fs::path& folder) {
  const FoundNames found = list_weight_files(folder);
  return !found.files.empty() || !found.indexes.empty();
}

WeightFiles find_weight_files(const fs::path& folder) {
  const auto [files, indexes] = list_weight_files(folder);
  const auto has = [](const std::vector<std::string>& names, const char* name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  if (has(files, "model.safetensors")) return {{}, {"model.safetensors"}};
  if (has(indexes, "model.safetensors.index.json")) return {folder / "model.safetensors.index.json", {}};
  if (indexes.size() > 1)
    refuse_weight_folder(folder, "has several *.safetensors.index.json files; name the right one model.safetensors.index.json");
  if (!indexes.empty()) return {folder / indexes.front(), {}};
  if (files.empty())
    refuse_weight_folder(folder, "has no *.safetensors files; copy them too, or start from random weights: init random");

  std::set<std::string> sets;
  std::size_t shards = 1;
  for (const std::string& name : files) {
    std::string set = name;
    shards = std::max(shards, shards_of(name, set));
    sets.insert(set);
  }
  if (sets.size() > 1)
    refuse_weight_folder(folder, "has several *.safetensors files and no index; name the one to read model.safetensors");
  if (files.size() < shards)
    refuse_weight_folder(folder, fmt::format("has {} of its {} shards; get the others", files.size(), shards));
  return {{}, files};
}

}  // namespace pipetrain
