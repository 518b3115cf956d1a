// The one reader of JSON in files that we do not trust. Its time is linear in the text; its memory is what it returns and a
// small multiple of the longest string, because no text need be in memory as a whole. Refused: bad syntax, a NUL byte (which
// other readers take for the end), keys that come twice in an object, numbers that no double holds, and what is beyond the
// limits. All functions are thread-safe.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "core/error.hpp"
#include "files/json_value.hpp"

namespace pipetrain {

// With the defaults a parsed text takes at most about 48 MB beside its strings.
struct JsonLimits {
  int depth = 16;                                  // of objects and arrays in each other
  std::size_t values = 200'000;                    // strings, numbers, objects, ... in all; 0: any number
  std::size_t token_bytes = std::size_t{1} << 20;  // of one string or number, or of the space between two
  bool comments = false;                           // allows // and /* */
};

// Gives a text piece by piece: the next one, valid until the next call; an empty one at the end.
using JsonPieces = std::function<std::string_view()>;
JsonPieces whole_text(std::string_view text);

// What is wrong with a text, and the line, counted from 1. Readers put the file before it.
class JsonFault : public Error {
 public:
  JsonFault(std::size_t line, const std::string& what) : Error(ErrorKind::input, what), line_(line) {}
  std::size_t line() const noexcept { return line_; }

 private:
  std::size_t line_;
};

// What a text holds, in its order. What a function throws ends the reading.
class JsonEvents {
 public:
  virtual ~JsonEvents() = default;
  virtual void open(JsonKind kind) = 0;  // object or array
  virtual void close() = 0;
  virtual void key(std::string&& name, std::size_t line) = 0;
  virtual void value(Json&& value) = 0;  // neither object nor array
};
// Throws JsonFault. Keys that come twice are for `events` to find.
void scan_json(const JsonPieces& pieces, const JsonLimits& limits, JsonEvents& events);

// How errors name the text: "FILE:LINE: what", or "FILE: what" for texts that nobody reads by lines.
struct JsonPlace {
  std::string file;
  bool has_lines = true;
};

// scan_json() with the place of the text before every fault. Throws Error(input).
void read_json(const JsonPieces& pieces, const JsonPlace& place, const JsonLimits& limits, JsonEvents& events);

// The whole text as one value. Throws Error(input).
Json parse_json(std::string_view text, const JsonPlace& place, const JsonLimits& limits = {});

struct JsonMember {
  std::string key;
  Json value;
  std::size_t line = 0;  // of the key
};
// The members of a text that is one object, each given once it has been read; the limit on values is one for each member.
// `take` returns whether the key is new: false is refused as a key that comes twice. Throws Error(input).
void read_json_members(const JsonPieces& pieces, const JsonPlace& place, const JsonLimits& limits,
                       const std::function<bool(JsonMember&&)>& take);

}  // namespace pipetrain
