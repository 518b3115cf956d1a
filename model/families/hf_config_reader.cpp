#include "model/families/hf_config_reader.hpp"

#include <fmt/format.h>

#include <cmath>

#include "core/error.hpp"

namespace pipetrain {

using nlohmann::json;

void HfConfigReader::refuse(const std::string& what) const {
  throw Error(ErrorKind::input, fmt::format("{}: {}", file_, what));
}

void HfConfigReader::refuse(const std::string& key, const std::string& what) const {
  refuse(fmt::format("\"{}{}\" {}", prefix_, key, what));
}

void HfConfigReader::refuse_value(const std::string& key, const std::string& rule) const {
  std::string shown = object_.at(key).dump(-1, ' ', true, json::error_handler_t::replace);
  if (shown.size() > 60) shown = shown.substr(0, 57) + "...";
  refuse(key, fmt::format("is {}; it must be {}", shown, rule));
}

bool HfConfigReader::has(const std::string& key) const {
  const auto found = object_.find(key);
  return found != object_.end() && !found->is_null();
}

void HfConfigReader::require(const std::string& key) const {
  if (!has(key))
    refuse(fmt::format("key \"{}{}\" is missing; a {} model needs it: add it, or copy the file again", prefix_, key, model_));
}

std::int64_t HfConfigReader::count(const std::string& key, std::int64_t most) const {
  require(key);
  const json& value = object_.at(key);
  if (!value.is_number_integer() || value < 1 || value > most) {
    refuse_value(key, fmt::format("a whole number from 1 to {}", most));
  }
  return value.get<std::int64_t>();
}

double HfConfigReader::positive(const std::string& key) const {
  require(key);
  const json& value = object_.at(key);
  if (!value.is_number() || !std::isfinite(value.get<double>()) || value.get<double>() <= 0) {
    refuse_value(key, "a number above 0");
  }
  return value.get<double>();
}

double HfConfigReader::share_or(const std::string& key, double otherwise) const {
  if (!has(key)) return otherwise;
  const json& value = object_.at(key);
  if (!value.is_number() || !(value.get<double>() >= 0) || value.get<double>() >= 1) {
    refuse_value(key, "a number from 0 to below 1");
  }
  return value.get<double>();
}

bool HfConfigReader::flag_or(const std::string& key, bool otherwise) const {
  if (!has(key)) return otherwise;
  if (!object_.at(key).is_boolean()) refuse_value(key, "true or false");
  return object_.at(key).get<bool>();
}

std::string HfConfigReader::text_or(const std::string& key, const std::string& otherwise) const {
  if (!has(key)) return otherwise;
  if (!object_.at(key).is_string()) refuse_value(key, "a text");
  return object_.at(key).get<std::string>();
}

std::optional<std::int64_t> HfConfigReader::token(const std::string& key, std::int64_t vocabulary) const {
  if (!has(key)) return std::nullopt;
  const json& value = object_.at(key);
  if (value.is_array() && value.empty()) return std::nullopt;
  const json& first = value.is_array() ? value.front() : value;
  if (!first.is_number_integer() || first < 0 || first >= vocabulary) {
    refuse_value(key, fmt::format("a token id below the vocabulary size {}", vocabulary));
  }
  return first.get<std::int64_t>();
}

HfConfigReader HfConfigReader::inner(const std::string& key) const {
  if (!object_.at(key).is_object()) refuse_value(key, "an object");
  return HfConfigReader(object_.at(key), file_, model_, prefix_ + key + ".");
}

}  // namespace pipetrain
