// Builds a JSON value from its events, for readers that keep only parts of a text.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "files/json_value.hpp"

namespace pipetrain {

// Takes the events of one value, from its opening to its close, in the order of JsonEvents. Not thread-safe.
class JsonBuilder {
 public:
  void open(JsonKind kind);
  void close();
  // Throws JsonFault for a duplicate key.
  void key(std::string&& name, std::size_t line);
  void value(Json&& value);

  bool is_complete() const { return is_complete_; }
  Json take();

 private:
  Json* place(Json&& value);

  Json root_;
  std::vector<Json*> open_;  // each inside the one before it
  Json* member_ = nullptr;   // the member whose key was read last
  bool is_complete_ = false;
};

// Returns a key as errors show it: in quotes, with escapes.
std::string shown_json_key(std::string_view key);

}  // namespace pipetrain
