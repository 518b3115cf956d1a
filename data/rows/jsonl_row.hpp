// One row of a .jsonl file. Internal to data/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/rows/text_keys.hpp"

namespace pipetrain {

class UnreadKeys;

enum class RowForm {
  text,      // {"text": "..."}, or the configured keys instead of "text"
  answer,    // {"prompt": "...", "response": "..."}
  messages,  // {"messages": [{"role": "...", "content": "..."}, ...]}, or {"conversations": [{"from", "value"}, ...]}
  ids,       // {"input_ids": [...]}, possibly with "labels"
};
const char* to_string(RowForm form);  // "prompt"

// All views are valid until this thread parses its next row.
struct Row {
  struct Message {
    std::string_view role, text;
  };
  // A wrong value in a list: "input_ids[2] is 2.5, not an integer; ...".
  struct WrongValue {
    bool in_labels = false;
    std::int64_t place = 0;
    std::string why;
    std::string line() const;
  };

  RowForm form = RowForm::text;
  std::vector<std::string_view> texts;  // of the text keys, in their order; or the prompt and the response
  std::vector<Message> messages;
  std::string_view source;            // the whole row, if it has messages: interpreted templates render more of it
  std::string unrendered;             // the reason why a built-in template cannot render the messages; empty if it can
  std::int64_t ids = 0, labels = 0;   // their numbers
  std::int64_t kept = 0;              // ids before the padding that a mask marks
  bool has_labels = false;            // true when it has labels besides ids
  std::vector<bool> left_out;         // one for each wanted label, or empty: true for labels that masks exclude
  std::optional<std::int64_t> label;  // the class
  std::optional<WrongValue> wrong;    // the first among the ids before the padding, or else among the labels
};

// The reason why a row is wrong, without its location.
struct RowFault {
  std::string why;
};

// The keys that a program asks for, and the destination of the values of lists: the first of them, as many as fit.
struct RowWanted {
  TextKeys text_keys = {};
  bool classifies = false;       // then "label" next to such texts is read
  UnreadKeys* unread = nullptr;  // collects keys that are ignored because they are unknown
  std::span<std::int32_t> ids = {}, labels = {};
  std::int64_t vocabulary = 0;  // ids must be in [0, vocabulary); labels may also be not_counted
};

// A row up to this size is parsed as a whole, which takes up to 14 times its size; a longer one is read as a stream,
// keeping only its texts. Both give the same result.
inline constexpr std::size_t longest_parsed_row = std::size_t{1} << 20;

// Keys of a row, without those of objects in it. More are refused, because all are kept until the row's end to find
// duplicates.
inline constexpr std::size_t most_row_keys = 10'000, most_row_key_bytes = std::size_t{1} << 20;
inline constexpr std::size_t most_row_messages = 10'000;

// A null value counts as absent. Throws RowFault on bad JSON, duplicate keys, too many keys or messages, other forms, mixed
// forms, keys and masks that add to the text without being read (row_keys.hpp, row_masks.hpp), and a string of more than 16
// MiB. Takes up to 16 MB of memory, and for rows of more than 1 MiB with texts, four times their size. Thread-safe.
Row parse_row(std::string_view row, const RowWanted& wanted, std::size_t longest_parsed = longest_parsed_row);

}  // namespace pipetrain
