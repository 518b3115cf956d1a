#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <ostream>

#include "actors/training/job/setting_row.hpp"
#include "actors/training/records/profile.hpp"
#include "core/error.hpp"
#include "files/file_io.hpp"
#include "files/json.hpp"
#include "model/config/mode_names.hpp"

namespace pipetrain {
namespace {

constexpr int format_version = 2;
constexpr const char* format_name = "pipetrain profile";
// Enough for 25,000 chunks.
constexpr std::size_t largest_file = std::size_t{8} << 20;
constexpr std::size_t most_profile_values = 300'000;

constexpr std::pair<const char*, double ChunkProfile::*> chunk_numbers[] = {{"forward", &ChunkProfile::forward},
                                                                            {"backward", &ChunkProfile::backward},
                                                                            {"input_grad", &ChunkProfile::input_grad},
                                                                            {"weight_grad", &ChunkProfile::weight_grad},
                                                                            {"reduce_grads", &ChunkProfile::reduce_grads},
                                                                            {"sum_replicated", &ChunkProfile::sum_replicated},
                                                                            {"sum_tied", &ChunkProfile::sum_tied},
                                                                            {"held_bytes", &ChunkProfile::held_bytes},
                                                                            {"pending_bytes", &ChunkProfile::pending_bytes}};
// Only runs that offload activations have these.
constexpr std::pair<const char*, double ChunkProfile::*> move_numbers[] = {{"offload", &ChunkProfile::offload},
                                                                           {"reload", &ChunkProfile::reload}};
constexpr std::pair<const char*, int Profile::*> layout_sizes[] = {{"pp", &Profile::pp},
                                                                   {"tp", &Profile::tp},
                                                                   {"dp", &Profile::dp},
                                                                   {"chunks", &Profile::chunks},
                                                                   {"microbatches", &Profile::microbatches},
                                                                   {"microbatch", &Profile::microbatch}};
constexpr std::pair<const char*, bool Profile::*> layout_switches[] = {
    {"v_shape", &Profile::v_shape}, {"sequence_parallel", &Profile::sequence_parallel}, {"tied_embeddings", &Profile::tied}};

class Reader {
 public:
  explicit Reader(std::string file) : file_(std::move(file)) {}

  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorKind::input, fmt::format("{}: {}; write the profile anew", file_, what));
  }
  const Json& at(const Json& object, const char* key) const {
    if (!object.is_object() || !object.contains(key)) fail(fmt::format("is not a profile: {} is missing", key));
    return object.at(key);
  }
  double number(const Json& object, const char* key) const { return as_number(at(object, key), key); }
  double as_number(const Json& value, const char* key) const {
    const double number = value.is_number() ? value.as_double() : -1;
    if (number != 0 && !(number >= schedules::smallest_cost && number <= schedules::largest_cost))
      fail(fmt::format("{} is {}, not 0 or a number from {} to {}", key, value.dump({.ascii = true}), schedules::smallest_cost,
                       schedules::largest_cost));
    return number;
  }
  std::int64_t count(const Json& object, const char* key) const {
    const Json& value = at(object, key);
    if (!value.is_integer() || value.as_double() < 1 || value.as_double() > 2e9)
      fail(fmt::format("{} is {}, not a count of at least 1", key, value.dump({.ascii = true})));
    return value.as_int64();
  }
  std::string text(const Json& object, const char* key) const {
    const Json& value = at(object, key);
    if (!value.is_string()) fail(fmt::format("{} is not a text", key));
    return value.as_string();
  }
  bool flag(const Json& object, const char* key) const {
    const Json& value = at(object, key);
    if (!value.is_boolean()) fail(fmt::format("{} is neither true nor false", key));
    return value.as_bool();
  }
  // Returns one entry for each virtual stage; empty for files of earlier builds.
  Cut cut(const Json& layout, int parts) const {
    Cut counts;
    if (!layout.contains("cut")) return counts;
    for (const Json& count : list(layout, "cut", parts)) {
      if (!count.is_integer() || count.as_double() < 1 || count.as_double() > 2e9)
        fail(fmt::format("cut has {}, not a count of at least 1", count.dump({.ascii = true})));
      counts.push_back(count.as_int64());
    }
    return counts;
  }
  // Reads the setting as its row does.
  SettingValue setting(const Json& object, const std::string& key, const SettingReader& row) const {
    if (std::holds_alternative<OnOff>(row)) return flag(object, key.c_str());
    const Json& value = object.at(key);
    if (const auto* names = std::get_if<Choices>(&row)) {
      const auto at = std::find(names->begin(), names->end(), text(object, key.c_str()));
      if (at == names->end()) fail(fmt::format("{} is none of {}", key, fmt::join(*names, ", ")));
      return std::int64_t{at - names->begin()};
    }
    const auto& range = std::get<IntegerRange>(row);
    if (!value.is_integer() || value.as_int64() < range.least || value.as_int64() > range.most)
      fail(fmt::format("{} is {}, not an integer from {} to {}", key, value.dump({.ascii = true}), range.least, range.most));
    return value.as_int64();
  }
  const Json& list(const Json& object, const char* key, int length) const {
    const Json& value = at(object, key);
    if (!value.is_array() || std::ssize(value) != length) fail(fmt::format("{} is not a list of {}", key, length));
    return value;
  }

 private:
  std::string file_;
};

ChunkProfile read_chunk(const Reader& reader, const Json& object) {
  ChunkProfile chunk;
  for (const auto& [key, member] : chunk_numbers) chunk.*member = reader.number(object, key);
  for (const auto& [key, member] : move_numbers)
    if (object.contains(key)) chunk.*member = reader.number(object, key);
  if (chunk.forward <= 0) reader.fail("forward is 0: no forward was measured");
  if (chunk.backward <= 0 && (chunk.input_grad <= 0 || chunk.weight_grad <= 0))
    reader.fail("backward, or input_grad and weight_grad, is 0: no backward was measured");
  return chunk;
}

std::string key_of(const SettingRow& row) {
  std::string key = row.name;
  std::replace(key.begin(), key.end(), '-', '_');
  return key;
}

// Reads the keys that files of earlier builds lack.
void read_settings(const Reader& reader, const Json& layout, Profile& profile) {
  profile.has_settings = layout.contains("precision");
  if (!profile.has_settings) return;
  const std::string precision = reader.text(layout, "precision");
  for (const Precision& known : {Precision::bf16(), Precision::fp16(), Precision::fp8(), Precision::fp8_of_blocks()})
    if (precision == numbers_name(known)) profile.settings.numerics.precision = known;
  for (const SettingRow& row : setting_table())
    if (const std::string key = key_of(row); (row.uses & profiled) != 0 && layout.contains(key))
      row.member.set(profile.settings, reader.setting(layout, key, row.member.reader));
  const int cp = profile.settings.layout.cp;
  if (profile.sequence % (2 * std::int64_t{cp}) != 0 && cp > 1)
    reader.fail(fmt::format("cp {} does not share sequences of {} tokens", cp, profile.sequence));
  if (profile.dp % profile.settings.layout.ep != 0)
    reader.fail(fmt::format("ep {} does not divide dp {}", profile.settings.layout.ep, profile.dp));
}

// Integers that are as RunSettings has them are left out.
void write_settings(const Profile& profile, Json& layout) {
  const RunSettings usual;
  layout["precision"] = numbers_name(profile.settings.numerics.precision);
  for (const SettingRow& row : setting_table()) {
    if ((row.uses & profiled) == 0) continue;
    const std::string text = row.member.text(profile.settings), key = key_of(row);
    if (std::holds_alternative<OnOff>(row.member.reader)) {
      layout[key] = text == "on";
    } else if (std::holds_alternative<Choices>(row.member.reader)) {
      layout[key] = text;
    } else if (text != row.member.text(usual)) {
      layout[key] = std::stoll(text);
    }
  }
}

}  // namespace

void write_profile(std::ostream& out, const Profile& profile) {
  Json layout;
  for (const auto& [key, member] : layout_sizes) layout[key] = profile.*member;
  for (const auto& [key, member] : layout_switches) layout[key] = profile.*member;
  if (!profile.cut.empty()) layout["cut"] = profile.cut;
  layout["schedule"] = profile.schedule;
  layout["sequence"] = profile.sequence;
  layout["device"] = name_of(profile.settings.devices.kind);
  if (profile.has_settings) write_settings(profile, layout);
  auto stages = Json::array();
  for (const StageProfile& stage : profile.stages) {
    auto chunks = Json::array();
    for (const ChunkProfile& chunk : stage.chunks) {
      Json cell;
      for (const auto& [key, member] : chunk_numbers) cell[key] = chunk.*member;
      for (const auto& [key, member] : move_numbers)
        if (chunk.*member > 0) cell[key] = chunk.*member;
      chunks.push_back(cell);
    }
    stages.push_back(Json::object({{"chunks", chunks}, {"norm", stage.norm}, {"optimizer", stage.optimizer}}));
  }
  const Json config = parse_json(profile.config, {"config.json"}, {.values = 0});
  const Json file = Json::object({{"format", format_name},
                                  {"version", format_version},
                                  {"model", profile.model},
                                  {"config", config},
                                  {"layout", layout},
                                  {"unit", "seconds"},
                                  {"steps", profile.steps},
                                  {"step_seconds", profile.step_seconds},
                                  {"outside", profile.outside},
                                  {"verdict", profile.verdict},
                                  {"p2p", profile.p2p},
                                  {"stages", stages}});
  out << file.dump({.indent = 1, .order = JsonOrder::as_added, .replace = true}) << "\n";  // file names need not be UTF-8
}

Profile read_profile(const std::filesystem::path& path) {
  const Json file = parse_json(read_text(path, largest_file), {path.string()}, {.values = most_profile_values});
  const Reader reader(path.string());
  if (reader.text(file, "format") != format_name) reader.fail("is not a profile: its format is another");
  if (reader.count(file, "version") != format_version) reader.fail("was written by another version of pipetrain");
  Profile profile;
  profile.model = reader.text(file, "model");
  profile.config = reader.at(file, "config").dump();
  const Json& layout = reader.at(file, "layout");
  for (const auto& [key, member] : layout_sizes) profile.*member = static_cast<int>(reader.count(layout, key));
  for (const auto& [key, member] : layout_switches) profile.*member = reader.flag(layout, key);
  if (profile.chunks > 32767 || (profile.v_shape && profile.chunks != 2)) reader.fail("chunks do not fit the placement");
  profile.cut = reader.cut(layout, profile.pp * profile.chunks);
  profile.schedule = reader.text(layout, "schedule");
  profile.sequence = reader.count(layout, "sequence");
  profile.settings.devices.kind = reader.text(layout, "device") == "cpu" ? DeviceKind::cpu : DeviceKind::cuda;
  read_settings(reader, layout, profile);
  profile.steps = reader.count(file, "steps");
  profile.step_seconds = reader.number(file, "step_seconds");
  profile.outside = reader.number(file, "outside");
  profile.verdict = reader.number(file, "verdict");
  for (const Json& stage : reader.list(file, "stages", profile.pp)) {
    StageProfile& row = profile.stages.emplace_back();
    for (const Json& chunk : reader.list(stage, "chunks", profile.chunks)) row.chunks.push_back(read_chunk(reader, chunk));
    row.norm = reader.number(stage, "norm");
    row.optimizer = reader.number(stage, "optimizer");
  }
  for (const Json& seconds : reader.list(file, "p2p", profile.pp * profile.chunks - 1))
    profile.p2p.push_back(reader.as_number(seconds, "p2p"));
  return profile;
}

}  // namespace pipetrain
