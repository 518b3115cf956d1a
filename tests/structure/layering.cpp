#include "structure/layering.hpp"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <functional>
#include <map>
#include <regex>
#include <set>
#include <utility>

namespace pipetrain::structure {
namespace {

namespace fs = std::filesystem;

struct Room {
  std::string folder;
  std::set<std::string> may_include;  // folders of other rooms
};

// The table of docs/architecture.md.
const std::vector<Room>& rooms() {
  static const std::vector<Room> table = {
      {"apps",
       {"tuning", "actors/generation", "actors/training", "actors/ranks", "actors/engine", "records", "schedules", "model",
        "ops", "comm", "data", "files", "core"}},
      {"actors/generation", {"actors/ranks", "actors/engine", "schedules", "model", "ops", "comm", "data", "files", "core"}},
      {"bindings/guest", {"actors/engine", "schedules", "comm", "core"}},
      {"bindings/c", {"bindings/guest", "actors/engine", "schedules", "comm", "core"}},
      {"bindings/python",
       {"apps", "bindings/guest", "actors/training", "actors/engine", "schedules", "comm", "data", "model", "core"}},
      {"records", {"schedules", "files", "core"}},
      {"tuning", {"actors/training", "schedules", "model", "ops", "files", "core"}},
      {"actors/training",
       {"actors/ranks", "actors/engine", "records", "schedules", "model", "ops", "comm", "data", "files", "core"}},
      {"actors/ranks", {"actors/engine", "schedules", "model", "ops", "comm", "files", "core"}},
      {"actors/engine", {"schedules", "comm", "core"}},
      {"model", {"ops", "files", "core"}},
      {"ops", {"core"}},
      {"comm", {"core"}},
      {"data", {"files", "core"}},
      {"files", {"core"}},
      {"schedules", {}},
      {"core", {}},
  };
  return table;
}

// A large room has streets: folders that know each other in one direction only. A room's name stands for the files that lie in
// none of them.
const std::vector<Room>& streets() {
  static const std::vector<Room> table = {
      {"apps/launch",
       {"apps/generate", "apps/options", "apps/output", "apps/processes", "apps/signals", "apps/table", "apps/train"}},
      {"apps/help", {"apps/options", "apps/table"}},
      {"apps/replay", {"apps/options", "apps/output", "apps/simulate", "apps/table"}},
      {"apps/watch", {"apps/options", "apps/output", "apps/table", "apps/train"}},
      {"apps/train", {"apps/options", "apps/output", "apps/processes", "apps/relayout", "apps/signals", "apps/table"}},
      {"apps/relayout", {"apps/options", "apps/output", "apps/table"}},
      {"apps/generate", {"apps/options", "apps/output", "apps/processes", "apps/signals", "apps/table"}},
      {"apps/export", {"apps/options", "apps/output", "apps/signals", "apps/table"}},
      {"apps/doctor", {"apps/options", "apps/output", "apps/table"}},
      {"apps/simulate", {"apps/options", "apps/output", "apps/table"}},
      {"apps/tokenize", {"apps/options", "apps/output", "apps/table"}},
      {"apps/tune", {"apps/options", "apps/output", "apps/table"}},
      {"apps/processes", {"apps/options", "apps/output", "apps/signals", "apps/table"}},
      {"apps/options", {"apps/foreign", "apps/output", "apps/table"}},
      {"apps/foreign", {"apps/table"}},
      {"apps/table", {}},
      {"apps/output", {"apps/signals"}},
      {"apps/signals", {}},
      {"actors/training/records", {"actors/training/run", "actors/training/rank", "actors/training/job"}},
      {"actors/training/run",
       {"actors/training/rank", "actors/training/checkpoint", "actors/training/copies", "actors/training/input",
        "actors/training/job", "actors/training/places", "actors/training/state"}},
      {"actors/training/rank",
       {"actors/training/checkpoint", "actors/training/copies", "actors/training/input", "actors/training/job",
        "actors/training/places", "actors/training/state", "actors/training/offload"}},
      {"actors/training/checkpoint", {"actors/training/job", "actors/training/state"}},
      {"actors/training/copies", {}},
      {"actors/training/input", {}},
      {"actors/training/job", {"actors/training/state"}},
      {"actors/training/state",
       {"actors/training/copies", "actors/training/places", "actors/training/offload", "actors/training/sums"}},
      {"actors/training/sums", {"actors/training/places"}},
      {"actors/training/places", {"actors/training/offload"}},
      {"actors/training/offload", {}},
      {"schedules/search", {"schedules/builders", "schedules/simulate", "schedules/plan"}},
      {"schedules/builders", {"schedules/simulate", "schedules/plan"}},
      {"schedules/record", {"schedules/simulate", "schedules/protocol", "schedules/plan"}},
      {"schedules/draw", {"schedules/simulate", "schedules/plan"}},
      {"schedules/simulate", {"schedules/protocol", "schedules/plan"}},
      {"schedules/protocol", {"schedules/plan"}},
      {"schedules/plan", {}},
      {"data/arrow", {"data/rows"}},
      {"data/formats", {"data/rows", "data/samples"}},
      {"data/rows", {"data/samples", "data/templates", "data/tokenizers"}},
      {"data/templates/functions", {"data/templates/syntax", "data/templates/values", "data/tokenizers/text"}},
      {"data/templates/syntax", {"data/templates/values", "data/tokenizers/text"}},
      {"data/templates/values", {"data/tokenizers/text"}},
      {"data/templates",
       {"data/templates/functions", "data/templates/syntax", "data/templates/values", "data/tokenizers/text"}},
      {"data/samples", {}},
      {"data/tokenizers/models", {"data/tokenizers/transforms", "data/tokenizers/text"}},
      {"data/tokenizers/transforms", {"data/tokenizers/text"}},
      {"data/tokenizers/text", {}},
      {"data/tokenizers",
       {"data/templates", "data/templates/values", "data/tokenizers/models", "data/tokenizers/transforms",
        "data/tokenizers/text"}},
      {"data", {"data/formats", "data/rows", "data/samples", "data/tokenizers"}},
      {"model/quantisation", {"model/parameters", "model/config"}},
      {"model/weights/peft", {"model/families", "model/parameters", "model/config"}},
      {"model/weights",
       {"model/weights/peft", "model/quantisation", "model/families", "model/families/keys", "model/parameters",
        "model/config"}},
      {"model/experts", {"model/blocks", "model/parameters", "model/config"}},
      {"model/further", {"model/blocks", "model/parameters", "model/config"}},
      {"model/attention", {"model/blocks", "model/rotation", "model/parameters", "model/config"}},
      {"model/blocks", {"model/rotation", "model/context", "model/parameters", "model/config"}},
      {"model/families", {"model/families/keys", "model/config"}},
      {"model/families/keys", {"model/config"}},
      {"model/optimizer", {"model/parameters"}},
      {"model/parameters", {"model/config"}},
      {"model/rotation", {"model/config"}},
      {"model/context", {}},
      {"model/config", {}},
      {"model",
       {"model/attention", "model/experts", "model/further", "model/blocks", "model/rotation", "model/weights", "model/context",
        "model/parameters", "model/config"}},
      {"ops/cuda/dispatch", {"ops/cuda/attention", "ops/cuda/experts", "ops/cuda/gemm", "ops/cuda/hopper", "ops/cuda"}},
      {"ops/cuda/attention", {"ops/cuda/hopper", "ops/cuda"}},
      {"ops/cuda/hopper", {"ops/cuda/experts", "ops/cuda/norm", "ops/cuda"}},
      {"ops/cuda/experts", {"ops/cuda"}},
      {"ops/cuda/gemm", {"ops/cuda"}},
      {"ops/cuda/norm", {"ops/cuda"}},
      {"ops/cuda", {}},
      {"core/cuda", {"core", "core/text", "core/threads"}},
      {"core/text", {}},
      {"core/threads", {}},
      {"core", {"core/text", "core/threads"}},
  };
  return table;
}

bool starts_with(const std::string& text, const std::string& prefix) { return text.compare(0, prefix.size(), prefix) == 0; }

// The first of the table whose folder a path relative to the root lies in, or null: inner folders come first.
const Room* find_folder(const std::vector<Room>& table, const std::string& path) {
  for (const Room& room : table) {
    if (starts_with(path, room.folder + "/")) return &room;
  }
  return nullptr;
}
const Room* room_of(const std::string& path) { return find_folder(rooms(), path); }
const Room* street_of(const std::string& path) { return find_folder(streets(), path); }

// Tells whether one file may include another of the same room.
bool goes_with_streets(const std::string& path, const std::string& header) {
  const Room* from = street_of(path);
  const Room* to = street_of(header);
  return from == nullptr || to == nullptr || from == to || from->may_include.count(to->folder) > 0;
}

// A library that only some files may include.
struct Restricted {
  std::string what;
  std::regex header;
  std::function<bool(const std::string& path)> allowed;
};

const std::vector<Restricted>& restricted_libraries() {
  const auto in_comm = [](const std::string& path) { return starts_with(path, "comm/"); };
  static const std::vector<Restricted> table = {
      {"CAF belongs to actors/ and apps/", std::regex("caf/.*"),
       [](const std::string& path) { return starts_with(path, "actors/") || starts_with(path, "apps/"); }},
      {"UCX belongs to comm/", std::regex("uc[pst]/.*"), in_comm},
      {"NCCL belongs to comm/", std::regex("nccl.*\\.h"), in_comm},
      {"sockets belong to comm/",
       std::regex("(boost/(asio|beast).*|sys/socket\\.h|sys/un\\.h|netdb\\.h|netinet/.*|arpa/inet\\.h|net/if\\.h|ifaddrs\\.h)"),
       in_comm},
      {"Arrow belongs to data/arrow/module/", std::regex("(arrow|parquet)/.*"),
       [](const std::string& path) { return starts_with(path, "data/arrow/module/"); }},
      {"CUDA belongs to core/cuda/, ops/cuda/ and comm/",
       std::regex("(cuda[^/]*\\.(h|hpp)|cuda/.*|cu(blas|dnn|rand|solver|sparse|fft)[^/]*|cooperative_groups.*|mma\\.h|cub/.*|"
                  "thrust/.*|nvtx3/.*|nvrtc\\.h|nvml\\.h)"),
       [](const std::string& path) {
         return starts_with(path, "core/cuda/") || starts_with(path, "ops/cuda/") || starts_with(path, "comm/");
       }},
  };
  return table;
}

// C++'s own are words in lower case, without an ending; others' have an ending, a folder or capitals.
bool is_standard_header(const std::string& header) {
  return !header.empty() && std::all_of(header.begin(), header.end(), [](unsigned char c) {
    return std::islower(c) != 0 || std::isdigit(c) != 0 || c == '_';
  });
}

// The string literals that begin and end on the line, without their quotes, joined by line ends. Comments hold none.
std::string strings_of(const std::string& line) {
  std::string strings;
  bool inside = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (!inside && line.compare(i, 2, "//") == 0) break;
    if (line.compare(i, 3, "'\"'") == 0) {  // the character
      i += 2;
    } else if (line[i] == '"') {
      inside = !inside;
      strings += '\n';
    } else if (inside) {
      strings += line[i];
      if (line[i] == '\\' && i + 1 < line.size()) strings += line[++i];
    }
  }
  return strings;
}

class Checker {
 public:
  explicit Checker(fs::path root) : root_(std::move(root)) {}

  std::vector<std::string> run() {
    for (const std::string& path : sources()) check_file(path);
    check_names();
    return std::move(found_);
  }

 private:
  std::vector<std::string> sources() const {
    static const std::set<std::string> extensions = {".hpp", ".cpp", ".cu", ".cuh", ".h"};
    std::vector<std::string> paths;
    for (const Room& room : rooms()) {
      if (!fs::exists(root_ / room.folder)) continue;
      for (const auto& entry : fs::recursive_directory_iterator(root_ / room.folder)) {
        if (entry.is_regular_file() && extensions.count(entry.path().extension().string()) > 0) {
          paths.push_back(fs::relative(entry.path(), root_).generic_string());
        }
      }
    }
    std::sort(paths.begin(), paths.end());
    return paths;
  }

  void check_file(const std::string& path) {
    static const std::regex include("^\\s*#\\s*include\\s*([<\"])([^>\"]+)[>\"].*");
    static const std::regex device_code("(^|[^\\w])__(global|device)__([^\\w]|$)|<<<");
    std::ifstream file(root_ / path);
    bool has_device_code = false;
    int line_number = 0;
    for (std::string line; std::getline(file, line);) {
      ++line_number;
      std::smatch match;
      if (std::regex_match(line, match, include)) {
        check_include(path, path + ':' + std::to_string(line_number), match[2].str(), match[1].str() == "\"");
        has_device_code = has_device_code || fs::path(match[2].str()).extension() == ".cuh";  // kernels to instantiate
      }
      check_strings(path, line, line_number);
      has_device_code = has_device_code || std::regex_search(line.substr(0, line.find("//")), device_code);
    }
    const std::string extension = fs::path(path).extension().string();
    if (extension == ".cu" && !has_device_code) report(path + ":1", "holds no device code: name it .cpp");
    if (extension == ".cpp" && has_device_code) report(path + ":1", "holds device code: name it .cu");
  }

  // An embedder has settings, not options: errors name the setting (Error::setting), and the command line adds the dashes.
  void check_strings(const std::string& path, const std::string& line, int line_number) {
    static const std::regex option("(^|[^-\\w])--[a-z]");
    if (room_of(path)->folder != "apps" && std::regex_search(strings_of(line), option))
      report(path + ':' + std::to_string(line_number), "spells a command-line option: only apps/ knows options");
  }

  void check_include(const std::string& path, const std::string& where, const std::string& header, bool quoted) {
    const Room& room = *room_of(path);
    const Room* target = room_of(header);
    if (target != nullptr && (quoted || fs::exists(root_ / header))) {
      if (target != &room && room.may_include.count(target->folder) == 0) {
        report(where, room.folder + " may not include " + header);
      } else if (target == &room && !goes_with_streets(path, header)) {
        report(where, street_of(path)->folder + " may not include " + header);
      } else if (!fs::exists(root_ / header)) {
        report(where, header + " does not exist");
      } else if (!quoted) {
        report(where, "write \"" + header + "\": it is ours");
      }
      return;
    }
    for (const Restricted& library : restricted_libraries()) {
      if (std::regex_match(header, library.header) && !library.allowed(path)) report(where, header + ": " + library.what);
    }
    if (quoted) {
      report(where, "\"" + header + "\" names no room: write our headers from the repository root, others in <>");
    } else if (room.folder == "schedules" && !is_standard_header(header)) {
      report(where, "schedules uses the standard library only, not " + header);
    }
  }

  // The backend that a file of a room belongs to: the first folder named cpu or cuda on its way, or none.
  static std::string backend_of(const std::string& path) {
    for (const fs::path& folder : fs::path(path).parent_path())
      if (folder == "cpu" || folder == "cuda") return folder.string();
    return {};
  }

  // Two sources of one room share a name only as twins, one under cpu/ and one under cuda/.
  void check_names() {
    std::map<std::pair<std::string, std::string>, std::vector<std::string>> by_name;
    for (const std::string& path : sources()) {
      const fs::path file(path);
      if (file.extension() == ".cpp" || file.extension() == ".cu") {
        by_name[{room_of(path)->folder, file.stem().string()}].push_back(path);
      }
    }
    for (const auto& [name, paths] : by_name) {
      std::set<std::string> backends;
      for (const std::string& path : paths) {
        if (const std::string backend = backend_of(path); !backend.empty()) backends.insert(backend);
      }
      if (paths.size() > 1 && backends.size() != paths.size()) {
        report(paths[1] + ":1", "has the name of " + paths[0] + "; only twins in cpu/ and cuda/ share one");
      }
    }
  }

  void report(const std::string& where, const std::string& what) { found_.push_back(where + ": " + what); }

  fs::path root_;
  std::vector<std::string> found_;
};

}  // namespace

std::vector<std::string> violations(const fs::path& root) { return Checker(root).run(); }

}  // namespace pipetrain::structure
