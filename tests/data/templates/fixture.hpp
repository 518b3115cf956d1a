// The chat templates and conversations that compare.py writes, with checksums of what jinja2 makes of them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "files/file_io.hpp"
#include "files/json.hpp"
#include "paths.hpp"

namespace pipetrain::test {

inline const Json& template_fixture() {
  static const Json fixture = [] {
    const std::string path = test_data() + "/data/templates/chat_templates.json";
    return parse_json(read_text(path, std::size_t{8} << 20), {path}, {.depth = 64, .values = 0});
  }();
  return fixture;
}

inline std::string fixture_template(const std::string& name) { return template_fixture().at("templates").at(name).as_string(); }

// FNV-1a of 64 bits, in hexadecimal digits.
inline std::string fnv_checksum(std::string_view text) {
  std::uint64_t value = 0xCBF29CE484222325;
  for (const char c : text) value = (value ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  std::string digits(16, '0');
  for (int i = 15; i >= 0; --i, value >>= 4) digits[static_cast<std::size_t>(i)] = "0123456789abcdef"[value & 15];
  return digits;
}

}  // namespace pipetrain::test
