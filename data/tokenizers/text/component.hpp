// One component of a tokenizer.json ({"type": "...", ...}) and its settings, each read once. Internal to data/.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizers/text/regex.hpp"
#include "files/json_value.hpp"

namespace pipetrain {

// The advice for a faulty tokenizer file.
inline constexpr const char* tokenizer_file_remedy = "correct the file, or copy it again from where it came";

// Throws Error(input) that names the file, the component and the setting if one is missing or of the wrong kind.
class Component {
 public:
  // `part` is "normalizer", "pre_tokenizer", ...; the value must outlive this object.
  Component(std::string file, std::string part, const Json& value);

  const std::string& type() const { return type_; }
  const std::string& place() const { return place_; }  // "FILE: pre_tokenizer Split"

  bool flag(const char* key, bool otherwise) const;
  std::int64_t integer(const char* key, std::int64_t least, std::int64_t most) const;
  std::string text(const char* key) const;
  std::string text_or(const char* key, const std::string& otherwise) const;
  char32_t character(const char* key) const;  // a text of one character
  const Json* find(const char* key) const;    // null if it is missing or null
  const Json& get(const char* key) const;
  // Reads {"String": "..."} or {"Regex": "..."}.
  Regex pattern(const char* key) const;
  std::string literal_pattern(const char* key) const;  // empty for a Regex
  // Returns the components of a Sequence, from its list `key`.
  std::vector<Component> parts(const char* key) const;

  // Reports a damaged file: `what` is a clause that says how.
  [[noreturn]] void fail(const std::string& what) const;
  // Reports a correct file that needs something unsupported: `what` is a clause that says what.
  [[noreturn]] void fail_unsupported(const std::string& what) const;
  // Reports an unknown type: the error names it, and the known ones.
  [[noreturn]] void fail_type(std::string_view known) const;

 private:
  std::string file_, part_, type_, place_;
  const Json* value_;
};

}  // namespace pipetrain
