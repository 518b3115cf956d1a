// A JSON value put together from its events, for readers that keep only parts of a text.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "files/json_value.hpp"

namespace pipetrain {

// Takes the events of one value, from its opening to its close, as JsonEvents gives them. Not thread-safe.
class JsonBuilder {
 public:
  void open(JsonKind kind);
  void close();
  // Throws JsonFault for a key that comes twice.
  void key(std::string&& name, std::size_t line);
  void value(Json&& value);

  bool is_complete() const { return is_complete_; }
  Json take();

 private:
  Json* place(Json&& value);

  Json root_;
  std::vector<Json*> open_;  // each in the one before it
  Json* member_ = nullptr;   // whose key was read last
  bool is_complete_ = false;
};

// A key as an error shows it: in quotes, with escapes.
std::string shown_json_key(std::string_view key);

}  // namespace pipetrain
