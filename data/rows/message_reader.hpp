// MessageReader collects the messages of a row while a parser reads them. Internal to data/.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <string_view>

#include "data/rows/jsonl_row.hpp"
#include "data/rows/row_keys.hpp"

namespace pipetrain {

// Appends to the row's messages, whose texts stay in the parser's memory. All functions throw RowFault. Not thread-safe.
class MessageReader {
 public:
  // Keeps references. key_bytes: the bytes of all keys of the row so far, which have a limit together.
  MessageReader(Row& row, std::size_t& key_bytes) : row_(row), key_bytes_(key_bytes) {}

  void begin();
  enum class Field { role, text, other };
  Field key(std::string_view key);
  void text(Field field, std::string_view text);
  void not_text(Field field);  // for a value of another kind, which a template may render
  void other(ValueKind kind);  // for a field that is not read
  void end();
  // Keeps the first reason why no built-in template can render the messages.
  void note_unrendered(std::string why);
  [[noreturn]] void refuse(std::string_view why) const { throw RowFault{fault_of(why)}; }

 private:
  std::string fault_of(std::string_view why) const;

  Row& row_;
  std::size_t& key_bytes_;
  std::set<std::string> keys_;  // the keys of the last message
  std::string key_;             // its last key
  bool has_role_ = false, has_text_ = false;
};

}  // namespace pipetrain
