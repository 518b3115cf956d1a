// Collects a row's values while either parser reads it, in the order of the text. Internal to data/.
#pragma once

#include <optional>
#include <set>

#include "data/rows/jsonl_row.hpp"
#include "data/rows/message_reader.hpp"
#include "data/rows/row_keys.hpp"
#include "data/rows/row_masks.hpp"

namespace pipetrain {

class RowReader {
 public:
  // texts_alone: the row's texts have the keys that the user chose; values of other forms and masks are then ignored.
  explicit RowReader(const RowWanted& wanted, bool texts_alone = false);
  RowReader(const RowReader&) = delete;
  RowReader& operator=(const RowReader&) = delete;

  // Called for each key of the row; says which kind of value the key requires.
  enum class Field { text, ids, labels, label, messages, mask, other };
  Field key(std::string_view key);

  // Called with the value of the last key, if it is of the kind that the field requires; nothing is called for a null value...
  void text(std::string_view text);
  void begin_list();  // for ids, labels or a mask; then for each value:
  void list_number(std::int64_t number);
  void list_large_number(std::uint64_t number);  // an integer beyond 64 signed bits is only out of range
  void list_truth(bool value);
  void list_other(std::string shown);
  void label(std::int64_t label) { row_.label = label; }
  MessageReader& begin_messages();  // reads the messages until the row's next key
  void other(ValueKind kind);       // for a key that is not read
  // ... and this if it is of another kind. Throws RowFault, as all functions do.
  [[noreturn]] void wrong_kind() const;

  bool has_text() const { return takes(RowForm::text); }
  Row finish();
  static std::string wanted_rows();  // "write one row ... a line"

 private:
  bool takes(RowForm form) const;
  RowForm form() const;
  void drop_repeated_prompt();
  void finish_texts(RowForm form);
  void finish_ids();
  void refuse_unread();
  void add_wrong(std::string why);

  const RowWanted& wanted_;
  bool texts_alone_;
  Row row_;
  std::set<std::string> keys_;
  std::size_t key_bytes_ = 0;
  std::string last_key_;
  Field field_ = Field::other;
  std::size_t slot_ = 0;                                // index in `texts_` of the current text
  std::vector<std::optional<std::string_view>> texts_;  // of the text keys, the prompt, the response
  bool has_ids_ = false, has_messages_ = false;
  RowMasks masks_;
  RowMasks::Kind mask_ = RowMasks::Kind::attention;  // of the last key
  std::int64_t last_counted_ = -1;                   // the index of the last label that counts
  struct Unread {
    std::string key;
    const char* why;
  };
  std::vector<Unread> content_, weights_;
  std::vector<std::string> unknown_;
  std::optional<Row::WrongValue> wrong_id_, wrong_label_;  // the first of each list
  MessageReader messages_{row_, key_bytes_};
};

}  // namespace pipetrain
