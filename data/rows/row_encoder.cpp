#include "data/rows/row_encoder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "core/error.hpp"
#include "data/rows/chat_row.hpp"
#include "data/rows/completion_encoder.hpp"
#include "data/rows/id_boundaries.hpp"
#include "data/templates/render_error.hpp"
#include "data/tokenizers/chat_form.hpp"
#include "data/tokenizers/chat_template.hpp"

namespace pipetrain {
namespace {

std::int32_t end_of(const Tokenizer& tokenizer) {
  const auto end = tokenizer.end_of_text();
  if (!end)
    throw Error(ErrorKind::input, {"tokenizer", ""},
                "its files name no token that ends a text, which separates documents; give \"eos_token\" in a "
                "tokenizer_config.json next to it");
  return *end;
}

constexpr const char* no_answer = "messages: none has the role assistant, so there is nothing to learn; add an answer";

}  // namespace

RowEncoder::RowEncoder(const TextReading& reading)
    : tokenizer_(*reading.tokenizer),
      encoder_(tokenizer_.encoder()),
      end_(end_of(tokenizer_)),
      largest_(reading.vocabulary > 0 ? reading.vocabulary - 1 : std::numeric_limits<std::int32_t>::max()),
      chat_template_(reading.chat_template),
      between_texts_(reading.between_texts) {
  encoder_->encode("", SpecialTokens::keep, front_);
  check_around();
  if (!front_.empty() && front_.back() == end_) front_.pop_back();
}

void RowEncoder::check_around() const {
  std::vector<std::int32_t> around = front_;
  around.push_back(end_);
  for (const std::int32_t id : around)
    if (id > largest_)
      throw Error(
          ErrorKind::input, {"tokenizer", ""},
          fmt::format("its token {}, which begins or ends texts, has the id {}, but the model's vocabulary has {}; give "
                      "the model's own tokenizer",
                      tokenizer_.piece(id), id, largest_ + 1));
}

// The files next to a tokenizer may name tokens that the model has no ids for; most texts contain none of them.
void RowEncoder::check_ids(std::span<const std::int32_t> ids) const {
  if (tokenizer_.vocabulary() <= largest_ + 1) return;
  const auto wrong = std::find_if(ids.begin(), ids.end(), [&](std::int32_t id) { return id > largest_; });
  if (wrong == ids.end()) return;
  throw RowFault{
      fmt::format("the text has the token {} with the id {}, but the model's vocabulary has {}; leave the token out "
                  "of the text, or give the model's own tokenizer",
                  tokenizer_.piece(*wrong), *wrong, largest_ + 1)};
}

void RowEncoder::add(std::string_view text, TokenizedDocuments& documents) {
  const std::size_t before = documents.ids.size();
  encoder_->encode(text, SpecialTokens::keep, documents.ids);
  if (documents.ids.size() == before || documents.ids.back() != end_) documents.ids.push_back(end_);
  finish(nullptr, documents);
}

void RowEncoder::add(const PreferenceRow& row, TokenizedDocuments& documents) {
  CompletionEncoder completions(tokenizer_, *encoder_, {front_, end_});
  const auto encoded = row.is_chat ? completions.encode_chats(row, chat_form(), chat_template_) : completions.encode_texts(row);
  for (const EncodedCompletion& one : encoded) {
    const std::size_t before = documents.ids.size();
    documents.ids.insert(documents.ids.end(), one.ids.begin(), one.ids.end());
    documents.counted.resize(before + one.prompt, false);
    finish(nullptr, documents);
  }
}

void RowEncoder::add(const Row& row, TokenizedDocuments& documents) {
  if (row.form == RowForm::messages) return add_messages(row, documents);
  if (row.form != RowForm::answer) return add_texts(row, documents);
  if (row.texts[1].empty()) throw RowFault{"\"response\" is empty, so there is nothing to learn; give an answer"};
  documents.ids.insert(documents.ids.end(), front_.begin(), front_.end());
  documents.counted.resize(documents.ids.size(), false);
  add_turn({std::string(row.texts[0]), std::string(row.texts[1])}, documents);
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
  const ChatForm& form = chat_form();
  if (form.program) {
    add_rendered(row, *form.program, documents);
  } else {
    add_built_in(row, form.name, documents);
  }
}

void RowEncoder::add_built_in(const Row& row, const std::string& name, TokenizedDocuments& documents) {
  if (!row.unrendered.empty()) throw RowFault{row.unrendered};
  std::vector<ChatMessage> messages;
  for (const auto& [role, text] : row.messages) messages.push_back({std::string(role), std::string(text)});
  std::vector<ChatPart> parts;
  try {
    parts = render_chat(name, messages, false);
  } catch (const Error& error) {
    if (error.setting() != nullptr) throw;  // the row is not at fault
    throw RowFault{error.what()};
  }
  documents.ids.insert(documents.ids.end(), front_.begin(), front_.end());
  documents.counted.resize(documents.ids.size(), false);
  Turn turn;
  for (const ChatPart& part : parts) {
    if (!part.is_answer) {
      turn.question += part.text;
      continue;
    }
    turn.answer = part.text;
    add_turn(turn, documents);
    turn = {"", "", chat_markers(name).back()};
  }
  if (turn.behind.empty()) throw RowFault{no_answer};
  finish(&row, documents);  // the tokens after the last answer are not counted
}

RenderedChat RowEncoder::rendered_chat(const Row& row, const ChatProgram& program) const {
  Chat chat;
  if (row.source.empty()) {
    for (const auto& [role, text] : row.messages) chat.messages.push_back(Json::object({{"role", role}, {"content", text}}));
  } else {
    chat = chat_of_text(row.source);
  }
  RenderedChat rendered;
  try {
    refuse_ignored(program, chat);
    rendered = program.render_answers(chat);
  } catch (const templates::RenderError& error) {
    throw RowFault{error.what()};
  }
  if (rendered.answers.empty()) throw RowFault{no_answer};
  try {
    check_special_tokens(tokenizer_, program, rendered.text);
  } catch (const Error& error) {
    throw Error(ErrorKind::input, {"chat-template", chat_template_}, error.what());
  }
  return rendered;
}

void RowEncoder::add_rendered(const Row& row, const ChatProgram& program, TokenizedDocuments& documents) {
  const RenderedChat rendered = rendered_chat(row, program);
  some_.clear();
  encoder_->encode(rendered.text, SpecialTokens::leave_out, some_);
  std::vector<bool> counted(some_.size(), false);
  IdBoundaries boundaries(tokenizer_, *encoder_, rendered.text, some_);
  IdBoundary known;
  std::size_t end = 0;
  for (const auto& answer : rendered.answers) {
    const IdBoundary begin = boundaries.find(answer.begin, known);
    known = boundaries.find(answer.end, known);
    end = std::max(end, std::min(known.ids + (known.straddles ? 1 : 0), some_.size()));
    for (std::size_t i = begin.ids; i < end; ++i) counted[i] = true;
  }
  documents.ids.insert(documents.ids.end(), some_.begin(), some_.begin() + static_cast<std::ptrdiff_t>(end));
  documents.counted.insert(documents.counted.end(), counted.begin(), counted.begin() + static_cast<std::ptrdiff_t>(end));
  finish(&row, documents);  // the tokens after the last answer are not counted
}

void RowEncoder::add_turn(const Turn& turn, TokenizedDocuments& documents) {
  const std::size_t before = documents.ids.size();
  encode_after(turn.behind, turn.question + turn.answer, documents.ids);
  some_.clear();
  encode_after(turn.behind, turn.question, some_);
  const auto begin = documents.ids.begin() + static_cast<std::ptrdiff_t>(before);
  const auto answered = std::mismatch(some_.begin(), some_.end(), begin, documents.ids.end()).second;
  documents.counted.resize(static_cast<std::size_t>(answered - documents.ids.begin()), false);
  documents.counted.resize(documents.ids.size(), true);
}

// Some tokenizers put a space in front of a text's beginning, but not after a special token.
void RowEncoder::encode_after(const std::string& before, const std::string& text, std::vector<std::int32_t>& ids) {
  if (before.empty()) return encoder_->encode(text, SpecialTokens::leave_out, ids);
  before_.clear();
  encoder_->encode(before, SpecialTokens::leave_out, before_);
  const std::size_t begin = ids.size();
  encoder_->encode(before + text, SpecialTokens::leave_out, ids);
  const auto first = ids.begin() + static_cast<std::ptrdiff_t>(begin);
  const auto [own, end] = std::mismatch(first, ids.end(), before_.begin(), before_.end());
  if (end == before_.end()) {
    ids.erase(first, own);
    return;
  }
  ids.resize(begin);  // the two texts share a token
  encoder_->encode(text, SpecialTokens::leave_out, ids);
}

void RowEncoder::add_end(TokenizedDocuments& documents) {
  const std::size_t before = documents.ends.empty() ? 0 : documents.ends.back();
  if (documents.ids.size() == before || documents.ids.back() != end_) documents.ids.push_back(end_);
}

void RowEncoder::finish(const Row* row, TokenizedDocuments& documents) {
  check_ids(std::span(documents.ids).subspan(documents.ends.empty() ? 0 : documents.ends.back()));
  documents.counted.resize(documents.ids.size(), true);
  documents.ends.push_back(documents.ids.size());
  if (row != nullptr && row->label) documents.classes.push_back(static_cast<std::int32_t>(*row->label));
}

const ChatForm& RowEncoder::chat_form() {
  if (chat_form_) return *chat_form_;
  try {
    chat_form_ = choose_chat_form(tokenizer_, chat_template_);
  } catch (const Error& error) {
    throw Error(ErrorKind::input, {"chat-template", chat_template_}, error.what());
  }
  if (!chat_form_->is_empty()) return *chat_form_;
  chat_form_.reset();
  throw RowFault{
      "messages: the tokenizer has neither <|im_start|> nor <|start_header_id|>, which show how they become a text; name the "
      "chat template, or give the tokenizer of a chat model"};
}

}  // namespace pipetrain
