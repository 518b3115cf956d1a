#include "data/rows/row_reader.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "data/rows/chat_row.hpp"
#include "data/samples/sample.hpp"
#include "files/json_builder.hpp"

namespace pipetrain {
namespace {

constexpr RowForm forms[] = {RowForm::text, RowForm::answer, RowForm::messages, RowForm::ids};

}  // namespace

const char* to_string(RowForm form) {
  constexpr const char* names[] = {"text", "prompt", "messages", "input_ids"};
  return names[static_cast<int>(form)];
}

std::string Row::WrongValue::line() const {
  return fmt::format("{}[{}] is {}", in_labels ? "labels" : "input_ids", place, why);
}

RowReader::RowReader(const RowWanted& wanted, bool texts_alone)
    : wanted_(wanted), texts_alone_(texts_alone), texts_(wanted.text_keys.names.size() + 2), masks_(wanted.labels.size()) {}

std::string RowReader::wanted_rows() {
  return R"(write one row {"text": "..."}, {"prompt": "...", "response": "..."}, {"messages": [...]} or {"input_ids": [...]} a line)";
}

RowReader::Field RowReader::key(std::string_view key) {
  if (!keys_.insert(std::string(key)).second)
    throw RowFault{fmt::format("{} appears twice in this row; keep one", shown_json_key(key))};
  key_bytes_ += key.size();
  if (keys_.size() > most_row_keys || key_bytes_ > most_row_key_bytes)
    throw RowFault{fmt::format("this row has more than {} keys, or {} bytes of them; {}", most_row_keys, most_row_key_bytes,
                               wanted_rows())};
  last_key_ = key;
  const auto& names = wanted_.text_keys.names;
  const auto name = std::find(names.begin(), names.end(), key);
  slot_ = static_cast<std::size_t>(name - names.begin());
  const RowKey known = name != names.end() ? RowKey::other : row_key(key);
  const bool is_class = known == RowKey::label && wanted_.classifies;
  if (texts_alone_ && name == names.end() && !is_class) return field_ = Field::other;
  if (known == RowKey::response) ++slot_;
  const bool is_text = name != names.end() || known == RowKey::prompt || known == RowKey::response;
  field_ = is_text                     ? Field::text
           : known == RowKey::ids      ? Field::ids
           : known == RowKey::labels   ? Field::labels
           : known == RowKey::label    ? Field::label
           : known == RowKey::messages ? Field::messages
                                       : Field::other;
  if (const auto mask = RowMasks::kind_of(key); mask && field_ == Field::other) {
    field_ = Field::mask;
    mask_ = *mask;
  }
  return field_;
}

void RowReader::text(std::string_view text) { texts_[slot_] = text; }

void RowReader::begin_list() {
  if (field_ == Field::mask) return masks_.begin(mask_);
  (field_ == Field::ids ? has_ids_ : row_.has_labels) = true;
}

void RowReader::list_number(std::int64_t number) {
  if (field_ == Field::mask) return masks_.add(number);
  const bool labels = field_ == Field::labels;
  const std::int64_t place = (labels ? row_.labels : row_.ids)++;
  if (labels && number != not_counted) last_counted_ = place;
  if ((number < 0 || number >= wanted_.vocabulary) && !(labels && number == not_counted))
    return add_wrong(fmt::format("{}, outside the model's vocabulary of {}; token ids go from 0 to {}{}", number,
                                 wanted_.vocabulary, wanted_.vocabulary - 1,
                                 labels ? ", and -100 marks a label that does not count" : ""));
  const auto places = labels ? wanted_.labels : wanted_.ids;
  if (place < std::ssize(places)) places[static_cast<std::size_t>(place)] = static_cast<std::int32_t>(number);
}

void RowReader::list_truth(bool value) {
  field_ == Field::mask ? masks_.add(value ? 1 : 0) : list_other(value ? "true" : "false");
}

void RowReader::list_large_number(std::uint64_t number) {
  if (field_ == Field::mask) masks_.refuse(fmt::format("{}", number));
  ++(field_ == Field::labels ? row_.labels : row_.ids);
  add_wrong(fmt::format("{}, outside the model's vocabulary of {}; token ids go from 0 to {}", number, wanted_.vocabulary,
                        wanted_.vocabulary - 1));
}

void RowReader::list_other(std::string shown) {
  const bool is_list = shown.starts_with('[');
  if (shown.size() > 60) shown = is_list ? "a list" : "a long value";
  if (field_ == Field::mask) masks_.refuse(shown);
  ++(field_ == Field::labels ? row_.labels : row_.ids);
  if (is_list) return add_wrong(shown + ", not an integer; write one flat list of token ids a row, not lists in a list");
  add_wrong(fmt::format("{}, not an integer; token ids are integers from 0 to {}", shown, wanted_.vocabulary - 1));
}

void RowReader::add_wrong(std::string why) {
  const bool labels = field_ == Field::labels;
  auto& wrong = labels ? wrong_label_ : wrong_id_;
  if (!wrong) wrong = Row::WrongValue{labels, (labels ? row_.labels : row_.ids) - 1, std::move(why)};
}

MessageReader& RowReader::begin_messages() {
  if (has_messages_) throw RowFault{R"(this row has both "messages" and "conversations"; keep one)"};
  has_messages_ = true;
  return messages_;
}

void RowReader::other(ValueKind kind) {
  const KeyRule rule = kind == ValueKind::null ? KeyRule{KeyMeaning::harmless, ""} : rule_of_key(last_key_);
  if (rule.meaning == KeyMeaning::unknown && wanted_.unread != nullptr) unknown_.push_back(last_key_);
  if (rule.meaning == KeyMeaning::content && kind != ValueKind::empty) content_.push_back({last_key_, rule.why});
  if (rule.meaning == KeyMeaning::weight && kind != ValueKind::one) weights_.push_back({last_key_, rule.why});
}

// Other content may be ignored next to texts whose keys the user named, since it is then known what the text is.
void RowReader::refuse_unread() {
  const bool is_text = takes(RowForm::text), is_chosen = is_text && wanted_.text_keys.chosen;
  if (has_messages_)
    std::erase_if(content_, [&](const Unread& unread) {
      if (!is_for_templates(unread.key)) return false;
      messages_.note_unrendered(fmt::format("{} is not read: {}", shown_json_key(unread.key), unread.why));
      return true;
    });
  if (!content_.empty() && !is_chosen)
    throw RowFault{fmt::format("{} is not read: {}{}", shown_json_key(content_.front().key), content_.front().why,
                               is_text ? "; or name the keys of the text (text-keys), then others are ignored" : "")};
  if (!weights_.empty())
    throw RowFault{fmt::format("{} is not read: {}", shown_json_key(weights_.front().key), weights_.front().why)};
  if (wanted_.unread == nullptr) return;
  for (const std::string& key : unknown_) wanted_.unread->add(key);
  for (const Unread& unread : content_) wanted_.unread->add(unread.key);
}

void RowReader::wrong_kind() const {
  if (field_ == Field::text)
    throw RowFault{
        fmt::format("{} is not a string; write {{{}: \"...\"}}", shown_json_key(last_key_), shown_json_key(last_key_))};
  if (field_ == Field::label) throw RowFault{R"("label" is not an integer; write the number of the class, counted from 0)"};
  if (field_ == Field::messages)
    throw RowFault{R"("messages" is not an array of objects; write {"messages": [{"role": "user", "content": "..."}, ...]})"};
  throw RowFault{fmt::format("\"{0}\" is not an array; write {{\"{0}\": [{1}]}}", last_key_,
                             field_ == Field::mask ? "1, 1, 0" : "1, 2, 3")};
}

bool RowReader::takes(RowForm form) const {
  const auto keys = static_cast<std::ptrdiff_t>(wanted_.text_keys.names.size());
  const auto given = [](const auto& text) { return text.has_value(); };
  if (form == RowForm::text) return std::any_of(texts_.begin(), texts_.begin() + keys, given);
  if (form == RowForm::answer) return std::any_of(texts_.begin() + keys, texts_.end(), given);
  return form == RowForm::messages ? has_messages_ : has_ids_;
}

RowForm RowReader::form() const {
  const auto name = [&](RowForm form) {
    return shown_json_key(form == RowForm::text ? wanted_.text_keys.names.front() : to_string(form));
  };
  std::vector<RowForm> found;
  for (const RowForm form : forms)
    if (takes(form)) found.push_back(form);
  if (found.empty())
    throw RowFault{fmt::format("this row has neither {} nor \"prompt\", \"messages\" or \"input_ids\"; {}", name(RowForm::text),
                               wanted_rows())};
  if (found.size() > 1) throw RowFault{fmt::format("this row has both {} and {}; keep one", name(found[0]), name(found[1]))};
  return found.front();
}

// In some datasets (ultrachat_200k) the prompt repeats the first question of the messages.
void RowReader::drop_repeated_prompt() {
  auto& prompt = texts_[wanted_.text_keys.names.size()];
  const auto question = std::find_if(row_.messages.begin(), row_.messages.end(),
                                     [](const Row::Message& message) { return message.role == "user"; });
  if (question != row_.messages.end() && prompt == question->text) prompt.reset();
}

// Requires all texts of the form.
void RowReader::finish_texts(RowForm form) {
  std::vector<std::string> names = wanted_.text_keys.names;
  if (form == RowForm::answer) names = {"prompt", "response"};
  const std::size_t first = form == RowForm::answer ? wanted_.text_keys.names.size() : 0;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (!texts_[first + i]) throw RowFault{fmt::format("this row has no {}; add it", shown_json_key(names[i]))};
    row_.texts.push_back(*texts_[first + i]);
  }
}

// Applies the masks to the ids, and checks that the labels agree.
void RowReader::finish_ids() {
  if (row_.has_labels && row_.labels != row_.ids)
    throw RowFault{fmt::format("this row has {} labels for {} input_ids; give one for each", row_.labels, row_.ids)};
  masks_.finish(row_.ids);
  row_.kept = masks_.kept();
  row_.left_out = masks_.take_left_out();
  if (wrong_id_ && wrong_id_->place >= row_.kept) wrong_id_.reset();  // padding is not part of the row
  row_.wrong = wrong_id_ ? std::move(wrong_id_) : std::move(wrong_label_);
  if (last_counted_ >= row_.kept)
    throw RowFault{
        fmt::format("labels[{0}] counts, though attention_mask[{0}] is 0, for padding; write -100 there", last_counted_)};
  if (const char* const mask = masks_.leaves_out(); row_.label && mask != nullptr)
    throw RowFault{fmt::format(R"("{}" goes with labels that are tokens, not with "label", a class; leave it out)", mask)};
}

Row RowReader::finish() {
  refuse_unread();
  drop_repeated_prompt();
  row_.form = form();
  if (row_.form == RowForm::text || row_.form == RowForm::answer) finish_texts(row_.form);
  if (row_.has_labels && row_.form != RowForm::ids)
    throw RowFault{R"(this row has "labels", but no "input_ids" that they belong to; add these or leave "labels" out)"};
  if (const char* const mask = masks_.any(); mask != nullptr && row_.form != RowForm::ids)
    throw RowFault{fmt::format(R"(this row has "{}", but no "input_ids" that it belongs to; leave it out)", mask)};
  if (row_.form == RowForm::ids) finish_ids();
  if (row_.label && row_.form != RowForm::text && (row_.form != RowForm::ids || row_.has_labels))
    throw RowFault{R"("label", a class, goes with a text or with "input_ids" alone; leave it out)"};
  return std::move(row_);
}

}  // namespace pipetrain
