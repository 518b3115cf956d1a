// The strict reader of a Hugging Face config.json.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "files/json_value.hpp"

namespace pipetrain {

// One JSON object of a file, read key by key. Every error is an Error(input) that names the file and the key. A null counts as
// absent, as Hugging Face has it. Keeps a reference to the object, and remembers the keys that it was asked for; copies share
// what they remember.
class HfConfigReader {
 public:
  static constexpr std::int64_t most_of_anything = std::int64_t{1} << 24;

  // `model` as errors name it: "a Llama model needs it".
  HfConfigReader(const Json& object, std::string file, std::string model, std::string prefix = "")
      : object_(object), file_(std::move(file)), model_(std::move(model)), prefix_(std::move(prefix)) {}

  [[noreturn]] void refuse(const std::string& what) const;
  [[noreturn]] void refuse(const std::string& key, const std::string& what) const;
  // Throws an error that says which value the key has, if any, and which it should have.
  [[noreturn]] void refuse_value(const std::string& key, const std::string& rule) const;

  bool has(const std::string& key) const;
  void require(const std::string& key) const;
  const Json& value(const std::string& key) const { return asked(key), object_.at(key); }

  std::int64_t count(const std::string& key, std::int64_t most = most_of_anything) const;
  double positive(const std::string& key) const;
  double positive_or(const std::string& key, double otherwise) const { return has(key) ? positive(key) : otherwise; }
  std::optional<double> number(const std::string& key) const;       // a finite one
  double share_or(const std::string& key, double otherwise) const;  // from 0 to below 1
  bool flag_or(const std::string& key, bool otherwise) const;
  std::string text_or(const std::string& key, const std::string& otherwise) const;
  // A token id, or a list of them, of which one token is the first.
  std::vector<std::int64_t> tokens(const std::string& key, std::int64_t vocabulary) const;
  std::optional<std::int64_t> token(const std::string& key, std::int64_t vocabulary) const;
  std::optional<std::int64_t> whole(const std::string& key) const;
  // Returns the keys of the object that were asked for, except nulls.
  std::vector<std::string> keys_asked() const;
  // True when the key is there, even if its value is null.
  bool mentions(const std::string& key) const { return asked(key), object_.find(key) != nullptr; }
  // True when the key has been asked for, by the reader of a family that understands it.
  bool was_asked(const std::string& key) const { return asked_->contains(key); }
  // The object under the key, which must be there.
  HfConfigReader inner(const std::string& key) const;
  // Throws where a key has a value, was never asked for, and is not among those that change nothing.
  void refuse_other_keys(std::span<const char* const> silent) const;

 private:
  void asked(const std::string& key) const { asked_->insert(key); }

  const Json& object_;
  std::string file_, model_, prefix_;
  std::shared_ptr<std::set<std::string>> asked_ = std::make_shared<std::set<std::string>>();
};

}  // namespace pipetrain
