// A JSON value put together from its events, for readers that keep only parts of a text.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace pipetrain {

// Takes the events of one value, from its opening to its close, as JsonEvents gives them. Not thread-safe.
class JsonBuilder {
 public:
  void open(nlohmann::json::value_t kind);
  void close();
  // Throws JsonFault for a key that comes twice.
  void key(std::string&& name, std::size_t line);
  void value(nlohmann::json&& value);

  bool is_complete() const { return is_complete_; }
  nlohmann::json take();

 private:
  nlohmann::json* place(nlohmann::json&& value);

  nlohmann::json root_;
  std::vector<nlohmann::json*> open_;  // each in the one before it
  nlohmann::json* member_ = nullptr;   // whose key was read last
  bool is_complete_ = false;
};

// A key as an error shows it: in quotes, with escapes.
std::string shown_json_key(const std::string& key);

}  // namespace pipetrain
