// Reads a text line by line and field by field, and holds one field at a time: files and their lines may be of any length.
// Internal to schedules/.
#pragma once

#include <array>
#include <istream>
#include <optional>
#include <string>
#include <string_view>

namespace pipetrain::schedules {

class FieldReader {
 public:
  // name: of the file, for messages. Throws PlanFileError when the text cannot be read to its end.
  FieldReader(std::istream& text, const std::string& name) : text_(text), name_(name) {}

  // Goes to the next line that has more than blanks and a comment, which begins with '#'.
  bool next_line();
  // Returns the next field of this line, up to one of `separators`, without surrounding blanks; no value at the end of
  // the line. Valid until the next call. Throws PlanFileError when it is longer than any valid field.
  std::optional<std::string_view> next_field(std::string_view separators);
  // True when the last field ended with a separator, false when it ended with the line.
  bool was_separated() const { return separated_; }
  // Goes back to the first line. The text must be seekable.
  void rewind();

  int line() const { return line_; }
  [[noreturn]] void fail(const std::string& what) const { fail(what, line_); }
  [[noreturn]] void fail(const std::string& what, int line) const;  // line 0: of the whole file

 private:
  static constexpr int end = -1;
  int peek();
  bool at_line_end();
  void skip_blanks();
  void skip_line();

  std::istream& text_;
  const std::string& name_;
  std::array<char, 1 << 16> buffer_;
  std::size_t at_ = 0, filled_ = 0;
  int line_ = 0;
  bool separated_ = false;
  std::string field_;
};

}  // namespace pipetrain::schedules
