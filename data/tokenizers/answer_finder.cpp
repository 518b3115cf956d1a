#include "data/tokenizers/answer_finder.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "data/templates/render_error.hpp"
#include "data/templates/values/characters.hpp"

namespace pipetrain {
namespace {

// Stands for a content. No template looks for it, and it has no white space that one would strip.
const std::string placeholder = "PlaceholderOfContent7Q";

std::string_view right_stripped(std::string_view text) { return templates::stripped(text, {}, templates::Ends::right); }

std::size_t common_size(std::string_view one, std::string_view other) {
  const auto ends = std::mismatch(one.begin(), one.end(), other.begin(), other.end());
  return static_cast<std::size_t>(ends.first - one.begin());
}

// Returns the beginning that both have, without a tag such as <|user|> that only begins in it.
std::string_view common_tags(std::string_view one, std::string_view other) {
  std::string_view common = one.substr(0, common_size(one, other));
  if (common.size() == one.size() || common.size() == other.size()) return common;
  for (const auto& [open, close] : {std::pair('<', '>'), std::pair('[', ']')})
    if (const std::size_t tag = common.rfind(open);
        tag != std::string_view::npos && common.find(close, tag) == std::string_view::npos)
      common = common.substr(0, tag);
  return common;
}

std::string text_of(const Json& message, const char* key) {
  const Json* const found = message.find(key);
  return found != nullptr && found->is_string() ? found->as_string() : "";
}

Json placeholder_answer() { return Json::object({{"role", "assistant"}, {"content", placeholder}}); }

}  // namespace

Chat AnswerFinder::chat_of(const Part& part) const {
  Chat chat{Json::array(), chat_.variables};
  for (std::size_t i = 0; i < part.count; ++i) {
    Json message = chat_.messages[i];
    if (part.replaced == i) message["content"] = placeholder;
    chat.messages.push_back(std::move(message));
  }
  for (const Json& message : part.further) chat.messages.push_back(message);
  return chat;
}

std::optional<std::string> AnswerFinder::try_render(const Part& part, bool ask) const {
  try {
    return program_.render(chat_of(part), ask);
  } catch (const templates::RenderError&) {
    return std::nullopt;
  }
}

std::optional<std::string> AnswerFinder::after_placeholder(const Part& part, bool ask) const {
  const auto text = try_render(part, ask);
  const std::size_t found = text ? text->rfind(placeholder) : std::string::npos;
  return found == std::string::npos ? std::nullopt : std::optional(text->substr(found + placeholder.size()));
}

std::vector<TextSpan> AnswerFinder::find() const {
  std::vector<TextSpan> answers;
  for (std::size_t i = 0; i < chat_.messages.size(); ++i) {
    if (text_of(chat_.messages[i], "role") != "assistant") continue;
    const std::size_t begin = begin_of(i), end = end_of(i, begin);
    if (begin > end || (!answers.empty() && begin < answers.back().end)) fail_answer(i);
    if (begin < end) answers.push_back({begin, end});
  }
  return answers;
}

void AnswerFinder::fail_answer(std::size_t answer) const {
  throw templates::RenderError(
      fmt::format("{}: the chat template rewrites messages, so that the answer messages[{}] is not found in its text; mark "
                  "answers in it by {{% generation %}}, or split the row",
                  program_.file(), answer));
}

// Returns the range of a message's content in the whole text; no value if another content changes the text around it.
std::optional<TextSpan> AnswerFinder::content_span(std::size_t message) const {
  const auto text = try_render({chat_.messages.size(), message}, false);
  const std::size_t found = text ? text->find(placeholder) : std::string::npos;
  if (found == std::string::npos) return std::nullopt;
  const std::string_view before = std::string_view(*text).substr(0, found);
  const std::string_view behind = std::string_view(*text).substr(found + placeholder.size());
  if (before.size() + behind.size() > text_.size() || !text_.starts_with(before) || !text_.ends_with(behind))
    return std::nullopt;
  return TextSpan{found, text_.size() - behind.size()};
}

std::size_t AnswerFinder::begin_of(std::size_t answer) const {
  const auto asked = try_render({answer}, true);
  if (asked && text_.starts_with(*asked)) return asked->size();
  if (const auto begin = begin_after(answer)) return *begin;
  const auto own = content_span(answer);
  if (!own) fail_answer(answer);
  return own->begin;
}

// Finds where the text ends that asks for the answer, after the message before it. A template may ask with more than it keeps,
// such as the beginning of a thought.
std::optional<std::size_t> AnswerFinder::begin_after(std::size_t answer) const {
  if (answer == 0) return std::nullopt;
  const auto before = content_span(answer - 1);
  const auto asks = after_placeholder({answer, answer - 1}, true), without = after_placeholder({answer, answer - 1}, false);
  if (!before || !asks || !without) return std::nullopt;
  const std::string_view rest = std::string_view(text_).substr(before->end);
  const std::size_t size = common_tags(rest, *asks).size();
  return size < common_tags(*asks, *without).size() ? std::nullopt : std::optional(before->end + size);
}

std::size_t AnswerFinder::end_of(std::size_t answer, std::size_t begin) const {
  const bool is_last = answer + 1 == chat_.messages.size();
  const auto with = is_last ? std::optional(text_) : try_render({answer + 1}, false);
  if (with && with->size() >= begin && text_.starts_with(*with)) {
    const std::string_view written = std::string_view(*with).substr(begin);
    const std::string whole = text_of(chat_.messages[answer], "content");
    const std::string_view content = right_stripped(whole);
    const bool has_marker = !right_stripped(written).ends_with(content) || content.empty();
    return begin + (has_marker ? right_stripped(written) : written).size();
  }
  const auto next = is_last ? std::nullopt : content_span(answer + 1);
  if (!next || next->begin < begin) fail_answer(answer);
  return end_of_content(answer, begin, next->begin);
}

// Returns the end of the answer's content, which is between the answer's beginning and the content of the next message.
std::size_t AnswerFinder::end_of_content(std::size_t answer, std::size_t begin, std::size_t bound) const {
  const std::string_view between = std::string_view(text_).substr(begin, bound - begin);
  const std::string marker = end_marker(answer);
  if (!marker.empty()) {
    const std::size_t found = between.rfind(marker);
    if (found == std::string_view::npos) fail_answer(answer);
    return begin + found + marker.size();
  }
  const std::string whole = text_of(chat_.messages[answer], "content");
  const std::string_view content = templates::stripped(whole);
  const std::size_t found = content.empty() ? std::string_view::npos : between.find(content);
  if (found == std::string_view::npos) fail_answer(answer);
  return begin + found + content.size();
}

// Returns the text that the template writes after an answer if another message follows.
std::string AnswerFinder::end_marker(std::size_t answer) const {
  const Part last{answer, {}, {placeholder_answer()}};
  Json next = chat_.messages[answer + 1];
  next["content"] = "NextContent7Q";
  Part followed = last;
  followed.further.push_back(next);
  const auto at_end = after_placeholder(last, false), inside = after_placeholder(followed, false);
  if (!at_end || right_stripped(*at_end).empty()) return "";
  const std::string_view closing = right_stripped(*at_end);
  if (!inside) return std::string(closing);
  const std::string_view both = right_stripped(common_tags(closing, *inside));
  if (!both.empty()) return std::string(both);
  // The last answer ends in another way, so the first tag after the other answers ends them.
  const std::size_t tag = inside->starts_with('<') ? inside->find('>') : std::string::npos;
  return tag == std::string::npos ? "" : inside->substr(0, tag + 1);
}

std::string AnswerFinder::last_answer_end() const {
  const auto behind = after_placeholder({chat_.messages.size(), {}, {placeholder_answer()}}, false);
  return behind ? std::string(templates::stripped(*behind)) : "";
}

}  // namespace pipetrain
