#include "model/families/config_report.hpp"

#include <set>
#include <utility>

#include "core/error.hpp"
#include "files/file_io.hpp"
#include "files/json.hpp"
#include "model/config/hf_config_text.hpp"
#include "model/families/family.hpp"
#include "model/families/hf_config.hpp"
#include "model/families/keys/hf_config_reader.hpp"
#include "model/families/keys/hf_key_error.hpp"

namespace pipetrain {
namespace {

// Each refusal reads the whole object once more.
constexpr std::size_t most_refusals = 50;

// Removes "a.b", which is the member b of the object a, or a member of that name. Returns false where there is none.
bool remove_key(Json& object, const std::string& path) {
  Json kept = Json::object();
  bool is_removed = false;
  for (const auto& [key, value] : object.items(JsonOrder::as_added)) {
    if (key == path) {
      is_removed = true;
      continue;
    }
    Json member = value;
    if (path.starts_with(key + ".") && member.is_object()) is_removed |= remove_key(member, path.substr(key.size() + 1));
    kept[key] = std::move(member);
  }
  object = std::move(kept);
  return is_removed;
}

void list_unused(const Json& object, ConfigReport& report) {
  const std::set<std::string> understood(report.understood.begin(), report.understood.end());
  for (const auto& [key, value] : object.items())
    if (!value.is_null() && !understood.contains(key)) report.unused.push_back(key);
}

// Reads the object again without each key that is refused, until the rest is accepted or a key is needed.
ConfigReport read_leniently(Json object, const std::string& name) {
  ConfigReport report;
  std::set<std::string> left_out;
  while (true) {
    try {
      report.understood.clear();
      report.config = read_config_object(object, name, &report.understood);
      report.family = spec_of(report.config->family).name;
      list_unused(object, report);
      return report;
    } catch (const HfKeyError& error) {
      if (!left_out.contains(error.key())) report.refused.push_back(error.what());
      const bool may_go_on = !error.is_missing() && report.refused.size() < most_refusals;
      if (may_go_on && remove_key(object, error.key()) && left_out.insert(error.key()).second) continue;
    } catch (const Error& error) {
      report.refused.push_back(error.what());
    }
    report.is_complete = false;
    return report;
  }
}

// Reads the object as the family that refuses the fewest of its keys.
ConfigReport read_as_nearest(const Json& object, const std::string& name) {
  std::optional<ConfigReport> nearest;
  const auto rank = [](const ConfigReport& report) { return std::pair(!report.is_complete, report.refused.size()); };
  for (const FamilySpec& family : families()) {
    Json as_its = object;
    as_its["model_type"] = family.model_type;
    as_its["architectures"] = Json::array({family.architecture});
    ConfigReport report = read_leniently(std::move(as_its), name);
    report.family = family.name;
    if (!nearest || rank(report) < rank(*nearest)) nearest = std::move(report);
  }
  nearest->is_known = false;
  return *nearest;
}

}  // namespace

ConfigReport report_config(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "config.json";
  const Json object = parse_json(read_text(file, most_config_bytes), {file.string()});
  if (!object.is_object() || names_known_family(object, file.string())) return read_leniently(object, file.string());
  ConfigReport nearest = read_as_nearest(object, file.string());
  // The readers' own line says which families are known.
  const ConfigReport own = read_leniently(object, file.string());
  nearest.refused.insert(nearest.refused.begin(), own.refused.begin(), own.refused.end());
  return nearest;
}

}  // namespace pipetrain
