// One row of a .jsonl file. Internal to data/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace pipetrain {

class UnreadKeys;

enum class RowForm {
  text,      // {"text": "..."}, or the keys that are asked for instead of "text"
  answer,    // {"prompt": "...", "response": "..."}
  messages,  // {"messages": [{"role": "...", "content": "..."}, ...]}, or sharegpt's {"conversations": [{"from", "value"}, ...]}
  ids,       // {"input_ids": [...]}, with "labels" or without
};
const char* to_string(RowForm form);  // "prompt"

// All views are valid until this thread parses its next row.
struct Row {
  struct Message {
    std::string_view role, text;
  };
  // A value of a list that is wrong: "input_ids[2] is 2.5, not an integer; ...".
  struct WrongValue {
    bool in_labels = false;
    std::int64_t place = 0;
    std::string why;
    std::string line() const;
  };

  RowForm form = RowForm::text;
  std::vector<std::string_view> texts;  // of the keys asked for, in their order; or the prompt and the response
  std::vector<Message> messages;
  // Of messages: the whole row, which templates that are interpreted may render more of; and why a built-in template cannot
  // render the row, or nothing where it can.
  std::string_view source;
  std::string unrendered;
  std::int64_t ids = 0, labels = 0;   // how many
  std::int64_t kept = 0;              // of the ids, those in front of padding that a mask names
  bool has_labels = false;            // beside the ids
  std::vector<bool> left_out;         // by masks, as many as the labels wanted, or none: their labels do not count
  std::optional<std::int64_t> label;  // a class
  std::optional<WrongValue> wrong;    // the first of the ids before the padding, or else of the labels
};

// What is wrong with a row, which does not know where it is.
struct RowFault {
  std::string why;
};

// Which keys a program asks for, and where it wants the values of lists: the first of them, as many as there are places.
struct RowWanted {
  std::vector<std::string> text_keys = {"text"};
  bool text_keys_chosen = false;  // by the user: what else is in rows of such texts is passed over
  bool classifies = false;        // then "label" beside such texts is not
  UnreadKeys* unread = nullptr;   // gets the keys that are passed over though nobody knows them
  std::span<std::int32_t> ids = {}, labels = {};
  std::int64_t vocabulary = 0;  // ids are wrong unless in [0, vocabulary), labels also where they are not_counted
};

// Up to here a row is parsed as a whole, which takes up to 14 times its size; a longer one is read as a stream, of which no
// more is kept than its texts. Both find the same.
inline constexpr std::size_t longest_parsed_row = std::size_t{1} << 20;

// Keys of a row besides those of objects in it: more are refused, because all are kept until the row's end to find those that
// come twice.
inline constexpr std::size_t most_row_keys = 10'000, most_row_key_bytes = std::size_t{1} << 20;
inline constexpr std::size_t most_row_messages = 10'000;

// A value that is null is one that the row does not have. Throws RowFault on bad JSON, keys that come twice, too many keys or
// messages, other forms, forms that are mixed, keys and masks that say more of the text than is read (row_keys.hpp,
// row_masks.hpp), and a string of more than 16 MiB. Takes up to 16 MB of memory, and for rows of more than 1 MiB with texts,
// four times their size. Thread-safe.
Row parse_row(std::string_view row, const RowWanted& wanted, std::size_t longest_parsed = longest_parsed_row);

}  // namespace pipetrain
