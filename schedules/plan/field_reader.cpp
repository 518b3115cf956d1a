#include "schedules/plan/field_reader.hpp"

#include <algorithm>
#include "schedules/plan/plan_file_error.hpp"

namespace pipetrain::schedules {

namespace {

constexpr std::size_t longest_field = 4096;

bool is_blank(int c) { return c == ' ' || c == '\t' || c == '\r'; }

}  // namespace

int FieldReader::peek() {
  if (at_ == filled_) {
    text_.read(buffer_.data(), static_cast<std::streamsize>(buffer_.size()));
    if (text_.bad()) fail("cannot be read to its end", 0);
    at_ = 0, filled_ = static_cast<std::size_t>(text_.gcount());
  }
  return at_ == filled_ ? end : static_cast<unsigned char>(buffer_[at_]);
}

bool FieldReader::at_line_end() {
  const int c = peek();
  return c == end || c == '\n' || c == '#';
}

void FieldReader::skip_blanks() {
  while (is_blank(peek())) ++at_;
}

void FieldReader::skip_line() {
  while (peek() != end && peek() != '\n') ++at_;
  if (peek() == '\n') ++at_;
}

bool FieldReader::next_line() {
  if (line_ > 0) skip_line();
  for (;; skip_line()) {
    if (peek() == end) return false;
    ++line_;
    skip_blanks();
    if (!at_line_end()) return true;
  }
}

std::optional<std::string_view> FieldReader::next_field(std::string_view separators) {
  skip_blanks();
  separated_ = false;
  if (at_line_end()) return std::nullopt;
  field_.clear();
  while (!separated_ && !at_line_end()) {
    const char c = buffer_[at_++];
    separated_ = separators.find(c) != std::string_view::npos;
    if (separated_) break;
    if (field_.size() == longest_field) fail("\"" + field_.substr(0, 40) + "...\" is longer than any word of a plan");
    field_ += c;
  }
  while (!field_.empty() && is_blank(field_.back())) field_.pop_back();
  return field_;
}

void FieldReader::rewind() {
  text_.clear();
  text_.seekg(0);
  if (!text_) fail("cannot be read twice; give a file", 0);
  at_ = filled_ = 0;
  line_ = 0;
}

void FieldReader::fail(const std::string& what, int line) const {
  std::string text = name_ + (line > 0 ? ":" + std::to_string(line) : "") + ": " + what;
  // The quoted part of the file may contain any bytes, but the error must be one line.
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
  throw PlanFileError(text);
}

}  // namespace pipetrain::schedules
