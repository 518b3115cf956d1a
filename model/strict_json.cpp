#include "model/strict_json.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "core/error.hpp"

namespace pipetrain {
namespace {

// "[json.exception.parse_error.101] parse error at line 1, column 2: ...; last read: '...'" without its first and last part.
std::string plain_message(const std::string& text) {
  const std::size_t begin = text.find("] ");
  const std::string rest = begin == std::string::npos ? text : text.substr(begin + 2);
  return rest.substr(0, rest.find("; last read"));
}

}  // namespace

nlohmann::json parse_strict_json(std::string_view text, const std::string& where, const JsonLimits& limits) {
  const auto refuse = [&](const std::string& what) { throw Error(ErrorKind::input, fmt::format("{}: {}", where, what)); };
  std::vector<std::set<std::string>> open_objects;
  std::size_t values = 0;
  const auto watch = [&](int depth, nlohmann::json::parse_event_t event, nlohmann::json& parsed) {
    using Event = nlohmann::json::parse_event_t;
    if (depth > limits.depth) refuse(fmt::format("JSON is nested deeper than {} levels", limits.depth));
    if (++values > limits.values) refuse(fmt::format("JSON has more than {} values", limits.values));
    if (event == Event::object_start) open_objects.emplace_back();
    if (event == Event::object_end) open_objects.pop_back();
    if (event == Event::key && !open_objects.back().insert(parsed.get<std::string>()).second) {
      refuse(fmt::format("key {} appears twice", parsed.dump(-1, ' ', true)));
    }
    return true;
  };
  try {
    return nlohmann::json::parse(text.begin(), text.end(), watch);
  } catch (const nlohmann::json::exception& error) {
    refuse(fmt::format("not valid JSON: {}", plain_message(error.what())));
  }
  return {};
}

}  // namespace pipetrain
