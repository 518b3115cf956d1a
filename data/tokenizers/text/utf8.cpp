#include "data/tokenizers/text/utf8.hpp"

#include <simdjson.h>

namespace pipetrain {
namespace {

// The second bytes that may follow this first one, and the length of the character: the Unicode Standard, table 3-7.
struct SequenceForm {
  int bytes = 0;  // 0: begins no character
  unsigned char low = 0x80, high = 0xBF;
};

SequenceForm form_of(unsigned char first) {
  if (first < 0x80) return {1};
  if (first < 0xC2) return {};
  if (first < 0xE0) return {2};
  if (first == 0xE0) return {3, 0xA0};
  if (first == 0xED) return {3, 0x80, 0x9F};
  if (first < 0xF0) return {3};
  if (first == 0xF0) return {4, 0x90};
  if (first < 0xF4) return {4};
  if (first == 0xF4) return {4, 0x80, 0x8F};
  return {};
}

void replace_invalid(std::string_view text, std::string& out) {
  out.clear();
  out.reserve(text.size() + text.size() / 8);
  for (std::size_t at = 0; at < text.size();) {
    const SequenceForm form = form_of(static_cast<unsigned char>(text[at]));
    std::size_t length = 1;
    for (int i = 1; i < form.bytes && at + length < text.size(); ++i, ++length) {
      const auto byte = static_cast<unsigned char>(text[at + length]);
      if (byte < (i == 1 ? form.low : 0x80) || byte > (i == 1 ? form.high : 0xBF)) break;
    }
    if (form.bytes != 0 && length == static_cast<std::size_t>(form.bytes)) {
      out.append(text, at, length);
    } else {
      out += "\xEF\xBF\xBD";
    }
    at += length;
  }
}

}  // namespace

void append_utf8(char32_t code, std::string& text) {
  const auto put = [&](char32_t byte) { text += static_cast<char>(static_cast<unsigned char>(byte)); };
  if (code < 0x80) return put(code);
  if (code < 0x800) {
    put(0xC0 | code >> 6);
  } else {
    if (code < 0x10000) {
      put(0xE0 | code >> 12);
    } else {
      put(0xF0 | code >> 18);
      put(0x80 | (code >> 12 & 0x3F));
    }
    put(0x80 | (code >> 6 & 0x3F));
  }
  put(0x80 | (code & 0x3F));
}

std::string to_utf8(char32_t code) {
  std::string text;
  append_utf8(code, text);
  return text;
}

std::string_view valid_utf8_or_replaced(std::string_view text, std::string& buffer) {
  if (simdjson::validate_utf8(text.data(), text.size())) return text;
  replace_invalid(text, buffer);
  return buffer;
}

}  // namespace pipetrain
