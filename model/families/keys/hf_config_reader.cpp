#include "model/families/keys/hf_config_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "core/error.hpp"
#include "model/families/keys/hf_key_error.hpp"

namespace pipetrain {

void HfConfigReader::refuse(const std::string& what) const {
  throw Error(ErrorKind::input, fmt::format("{}: {}", file_, what));
}

void HfConfigReader::refuse(const std::string& key, const std::string& what) const {
  throw HfKeyError(fmt::format("{}: \"{}{}\" {}", file_, prefix_, key, what), prefix_ + key, false);
}

void HfConfigReader::refuse_value(const std::string& key, const std::string& rule) const {
  const Json* const value = object_.find(key);
  if (value == nullptr) refuse(key, fmt::format("is absent; it must be {}", rule));
  std::string shown = value->dump({.ascii = true, .replace = true});
  if (shown.size() > 60) shown = shown.substr(0, 57) + "...";
  refuse(key, fmt::format("is {}; it must be {}", shown, rule));
}

bool HfConfigReader::has(const std::string& key) const {
  asked(key);
  const Json* const found = object_.find(key);
  return found && !found->is_null();
}

void HfConfigReader::require(const std::string& key) const {
  if (!has(key))
    throw HfKeyError(fmt::format("{}: key \"{}{}\" is missing; a {} model needs it: add it, or copy the file again", file_,
                                 prefix_, key, model_),
                     prefix_ + key, true);
}

std::int64_t HfConfigReader::count(const std::string& key, std::int64_t most) const {
  require(key);
  const auto number = object_.at(key).whole();
  if (!number || *number < 1 || *number > most) {
    refuse_value(key, fmt::format("a whole number from 1 to {}", most));
  }
  return *number;
}

double HfConfigReader::positive(const std::string& key) const {
  require(key);
  const Json& value = object_.at(key);
  if (!value.is_number() || !std::isfinite(value.as_double()) || value.as_double() <= 0) {
    refuse_value(key, "a number above 0");
  }
  return value.as_double();
}

std::optional<double> HfConfigReader::number(const std::string& key) const {
  if (!has(key)) return std::nullopt;
  const Json& value = object_.at(key);
  if (!value.is_number() || !std::isfinite(value.as_double())) refuse_value(key, "a number");
  return value.as_double();
}

double HfConfigReader::share_or(const std::string& key, double otherwise) const {
  if (!has(key)) return otherwise;
  const Json& value = object_.at(key);
  if (!value.is_number() || !(value.as_double() >= 0) || value.as_double() >= 1) {
    refuse_value(key, "a number from 0 to below 1");
  }
  return value.as_double();
}

bool HfConfigReader::flag_or(const std::string& key, bool otherwise) const {
  if (!has(key)) return otherwise;
  if (!object_.at(key).is_boolean()) refuse_value(key, "true or false");
  return object_.at(key).as_bool();
}

std::string HfConfigReader::text_or(const std::string& key, const std::string& otherwise) const {
  if (!has(key)) return otherwise;
  if (!object_.at(key).is_string()) refuse_value(key, "a text");
  return object_.at(key).as_string();
}

std::vector<std::int64_t> HfConfigReader::tokens(const std::string& key, std::int64_t vocabulary) const {
  std::vector<std::int64_t> ids;
  if (!has(key)) return ids;
  const Json& value = object_.at(key);
  const Json list = value.is_array() ? value : Json::array({value});
  for (const Json& token : list) {
    const auto id = token.whole();
    if (!id || *id < 0 || *id >= vocabulary) {
      refuse_value(key, fmt::format("a token id below the vocabulary size {}", vocabulary));
    }
    ids.push_back(*id);
  }
  return ids;
}

std::optional<std::int64_t> HfConfigReader::token(const std::string& key, std::int64_t vocabulary) const {
  const auto ids = tokens(key, vocabulary);
  return ids.empty() ? std::nullopt : std::optional(ids.front());
}

std::optional<std::int64_t> HfConfigReader::whole(const std::string& key) const {
  if (!has(key)) return std::nullopt;
  const auto number = object_.at(key).whole();
  if (!number) refuse_value(key, "a whole number");
  return number;
}

HfConfigReader HfConfigReader::inner(const std::string& key) const {
  if (!object_.at(key).is_object()) refuse_value(key, "an object");
  return HfConfigReader(object_.at(key), file_, model_, prefix_ + key + ".");
}

std::vector<std::string> HfConfigReader::keys_asked() const {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object_.items())
    if (!value.is_null() && asked_->contains(key)) keys.push_back(prefix_ + key);
  return keys;
}

void HfConfigReader::refuse_other_keys(std::span<const char* const> silent) const {
  for (const auto& [key, value] : object_.items()) {
    const auto is_it = [&](std::string_view one) { return one == key; };
    if (value.is_null() || asked_->contains(std::string(key)) || std::any_of(silent.begin(), silent.end(), is_it)) continue;
    refuse(std::string(key), "is not known, and may change what the model computes; remove it if it changes nothing");
  }
}

}  // namespace pipetrain
