// What the keys of a row mean that hold neither its text nor its ids. Internal to data/.
#pragma once

#include <mutex>
#include <set>
#include <string>
#include <string_view>

namespace pipetrain {

enum class KeyMeaning {
  unknown,
  harmless,  // where the row comes from, and what was measured of it
  content,   // what else a model is to read or to say, or which of several answers is the right one
  weight,    // how much the row or message counts; 1 is as if it were not there
};

struct KeyRule {
  KeyMeaning meaning = KeyMeaning::unknown;
  const char* why = "";  // of content and weight: behind "... is not read: "
};
KeyRule rule_of_key(std::string_view key);

// Of a value that is not read, what decides whether it may be passed over. Null is as if the key were not there.
enum class ValueKind {
  null,
  empty,  // a text, list or object with nothing in it
  one,    // the number 1, or true
  other,
};

// Keys that no reader knows, gathered over rows and files to be told once. Thread-safe.
class UnreadKeys {
 public:
  void add(std::string_view key);
  // "these keys of rows are not read: "a", "b"", or nothing where there is none.
  std::string note() const;

 private:
  static constexpr std::size_t most_shown = 8;

  mutable std::mutex mutex_;
  std::set<std::string, std::less<>> shown_;
  bool has_more_ = false;
};

}  // namespace pipetrain
