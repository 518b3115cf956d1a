#include "data/row_encoder.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.hpp"
#include "data/tokenizers/chat_template.hpp"

namespace pipetrain {
namespace {

std::int32_t end_of(const Tokenizer& tokenizer) {
  const auto end = tokenizer.end_of_text();
  if (!end)
    throw Error(ErrorKind::input, {"tokenizer", ""},
                "its files name no token that ends a text, which stands between documents; give \"eos_token\" in a "
                "tokenizer_config.json beside it");
  return *end;
}

}  // namespace

RowEncoder::RowEncoder(const TextReading& reading)
    : tokenizer_(*reading.tokenizer),
      encoder_(tokenizer_.encoder()),
      end_(end_of(tokenizer_)),
      chat_template_(reading.chat_template),
      between_texts_(reading.between_texts) {
  encoder_->encode("", SpecialTokens::keep, front_);
  if (!front_.empty() && front_.back() == end_) front_.pop_back();
}

void RowEncoder::add(std::string_view text, TokenizedDocuments& documents) {
  const std::size_t before = documents.ids.size();
  encoder_->encode(text, SpecialTokens::keep, documents.ids);
  if (documents.ids.size() == before || documents.ids.back() != end_) documents.ids.push_back(end_);
  finish(nullptr, documents);
}

void RowEncoder::add(const Row& row, TokenizedDocuments& documents) {
  if (row.form == RowForm::messages) return add_messages(row, documents);
  if (row.form != RowForm::answer) return add_texts(row, documents);
  if (row.texts[1].empty()) throw RowFault{"\"response\" is empty, so there is nothing to learn; give an answer"};
  documents.ids.insert(documents.ids.end(), front_.begin(), front_.end());
  documents.counted.resize(documents.ids.size(), false);
  add_turn(std::string(row.texts[0]), std::string(row.texts[1]), documents);
  add_end(documents);
  finish(&row, documents);
}

void RowEncoder::add_texts(const Row& row, TokenizedDocuments& documents) {
  if (row.texts.size() == 1) {
    encoder_->encode(row.texts.front(), SpecialTokens::keep, documents.ids);
  } else {
    documents.ids.insert(documents.ids.end(), front_.begin(), front_.end());
    for (std::size_t i = 0; i < row.texts.size(); ++i) {
      if (i > 0) encoder_->encode(between_texts_, SpecialTokens::leave_out, documents.ids);
      encoder_->encode(row.texts[i], SpecialTokens::leave_out, documents.ids);
    }
  }
  if (!row.label) add_end(documents);
  finish(&row, documents);
}

void RowEncoder::add_messages(const Row& row, TokenizedDocuments& documents) {
  std::vector<ChatMessage> messages;
  for (const auto& [role, text] : row.messages) messages.push_back({std::string(role), std::string(text)});
  std::vector<ChatPart> parts;
  try {
    parts = render_chat(chat_template(), messages, false);
  } catch (const Error& error) {
    if (error.setting() != nullptr) throw;  // not the row's fault
    throw RowFault{error.what()};
  }
  documents.ids.insert(documents.ids.end(), front_.begin(), front_.end());
  documents.counted.resize(documents.ids.size(), false);
  std::string question;
  bool is_answered = false;
  for (const ChatPart& part : parts) {
    if (!part.is_answer) {
      question += part.text;
      continue;
    }
    add_turn(question, part.text, documents);
    question.clear();
    is_answered = true;
  }
  if (!is_answered) throw RowFault{"messages: none is of the assistant, so there is nothing to learn; add an answer"};
  finish(&row, documents);  // what comes behind the last answer is nothing to learn
}

void RowEncoder::add_turn(const std::string& question, const std::string& answer, TokenizedDocuments& documents) {
  const std::size_t before = documents.ids.size();
  encoder_->encode(question + answer, SpecialTokens::leave_out, documents.ids);
  some_.clear();
  encoder_->encode(question, SpecialTokens::leave_out, some_);
  const auto begin = documents.ids.begin() + static_cast<std::ptrdiff_t>(before);
  const auto answered = std::mismatch(some_.begin(), some_.end(), begin, documents.ids.end()).second;
  documents.counted.resize(static_cast<std::size_t>(answered - documents.ids.begin()), false);
  documents.counted.resize(documents.ids.size(), true);
}

void RowEncoder::add_end(TokenizedDocuments& documents) {
  const std::size_t before = documents.ends.empty() ? 0 : documents.ends.back();
  if (documents.ids.size() == before || documents.ids.back() != end_) documents.ids.push_back(end_);
}

void RowEncoder::finish(const Row* row, TokenizedDocuments& documents) {
  documents.counted.resize(documents.ids.size(), true);
  documents.ends.push_back(documents.ids.size());
  if (row != nullptr && row->label) documents.classes.push_back(static_cast<std::int32_t>(*row->label));
}

const std::string& RowEncoder::chat_template() {
  if (!chat_template_.empty()) return chat_template_;
  chat_template_ = tokenizer_.find("<|im_start|>") ? "chatml" : tokenizer_.find("<|start_header_id|>") ? "llama3" : "";
  if (chat_template_.empty())
    throw RowFault{
        "messages: the tokenizer has neither <|im_start|> nor <|start_header_id|>, which tell how they become a text; name "
        "the chat template, or give the tokenizer of a chat model"};
  return chat_template_;
}

}  // namespace pipetrain
