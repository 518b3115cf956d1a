// The keys of a row: those that are read, and the meaning of the others. Internal to data/.
#pragma once

#include <mutex>
#include <set>
#include <string>
#include <string_view>

namespace pipetrain {

// The keys that hold a row's text, ids or class; the program may choose further keys for texts.
enum class RowKey { prompt, response, messages, ids, labels, label, other };
RowKey row_key(std::string_view key);

enum class KeyMeaning {
  unknown,
  harmless,  // the origin of the row, or a measurement of it
  content,   // further input or output of the model, or which of several answers is the right one
  weight,    // the weight of the row or message; 1 has no effect
};

struct KeyRule {
  KeyMeaning meaning = KeyMeaning::unknown;
  const char* why = "";  // for content and weight: completes "... is not read: "
};
KeyRule rule_of_key(std::string_view key);

// The properties of an unread value that decide whether it may be ignored. Null counts as an absent key.
enum class ValueKind {
  null,
  empty,  // an empty text, list or object
  one,    // the number 1, or true
  other,
};

// Collects unknown keys over rows and files, to report them once. Thread-safe.
class UnreadKeys {
 public:
  void add(std::string_view key);
  // Returns "these keys of rows are not read: "a", "b"", or nothing if there are none.
  std::string note() const;

 private:
  static constexpr std::size_t most_shown = 8;

  mutable std::mutex mutex_;
  std::set<std::string, std::less<>> shown_;
  bool has_more_ = false;
};

}  // namespace pipetrain
