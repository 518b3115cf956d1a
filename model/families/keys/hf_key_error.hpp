// The error of a config.json that lacks a key or has a wrong value.
#pragma once

#include <string>
#include <utility>

#include "core/error.hpp"

namespace pipetrain {

// An error about one key of a config.json.
class HfKeyError : public Error {
 public:
  HfKeyError(const std::string& what, std::string key, bool is_missing)
      : Error(ErrorKind::input, what), key_(std::move(key)), is_missing_(is_missing) {}
  const std::string& key() const noexcept { return key_; }  // with the keys of the objects around it: "rope_scaling.factor"
  bool is_missing() const noexcept { return is_missing_; }  // false: its value is refused

 private:
  std::string key_;
  bool is_missing_;
};

}  // namespace pipetrain
