// The only reader of JSON from untrusted files. Its time is linear in the text; its memory is its result and a small
// multiple of the longest string, because the text need not be in memory as a whole. It refuses bad syntax, a NUL byte
// (which other readers take for the end), duplicate keys in an object, numbers that no double can hold, and texts
// beyond the limits. All functions are thread-safe.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "files/json_value.hpp"

namespace pipetrain {

// With the defaults a parsed text takes at most about 48 MB besides its strings.
struct JsonLimits {
  int depth = 16;                                  // nesting of objects and arrays
  std::size_t values = 200'000;                    // strings, numbers, objects, ... in total; 0: no limit
  std::size_t token_bytes = std::size_t{1} << 20;  // of a string, a number, or the white space between two
  bool comments = false;                           // allows // and /* */
};

// Gives a text piece by piece: each call returns the next piece, valid until the next call, and an empty one at the end.
using JsonPieces = std::function<std::string_view()>;
JsonPieces whole_text(std::string_view text);

// Receives the contents of a text in order. An exception that a function throws ends the reading.
class JsonEvents {
 public:
  virtual ~JsonEvents() = default;
  virtual void open(JsonKind kind) = 0;  // an object or array
  virtual void close() = 0;
  virtual void key(std::string&& name, std::size_t line) = 0;
  virtual void value(Json&& value) = 0;  // neither an object nor an array
};
// Throws JsonFault. `events` must detect duplicate keys.
void scan_json(const JsonPieces& pieces, const JsonLimits& limits, JsonEvents& events);

// Says how errors name the text: "FILE:LINE: what", or "FILE: what" for texts that people do not read by lines.
struct JsonLocation {
  std::string file;
  bool has_lines = true;
};

// Calls scan_json(), and puts the place of the text before every fault. Throws Error(input).
void read_json(const JsonPieces& pieces, const JsonLocation& place, const JsonLimits& limits, JsonEvents& events);

// Returns the whole text as one value. Throws Error(input).
Json parse_json(std::string_view text, const JsonLocation& place, const JsonLimits& limits = {});

struct JsonMember {
  std::string key;
  Json value;
  std::size_t line = 0;  // the key's line
};
// Reads a text that is one object, and calls `take` with each member once it has been read; the limit on values applies
// to each member. `take` returns false for a duplicate key, which is then refused. Throws Error(input).
void read_json_members(const JsonPieces& pieces, const JsonLocation& place, const JsonLimits& limits,
                       const std::function<bool(JsonMember&&)>& take);

}  // namespace pipetrain
