#include "data/rows/jsonl_file.hpp"

#include <fmt/format.h>

#include "core/error.hpp"
#include "files/text_encoding.hpp"
#include "files/unpacked_file.hpp"

namespace pipetrain {

JsonlFile::JsonlFile(const std::filesystem::path& path, const RowWanted& wanted, std::int64_t parquet_rows)
    : file_(is_parquet(path) ? open_parquet(path, wanted.text_keys, parquet_rows) : open_unpacked(path)) {
  refuse_utf16(file_.bytes(), path.string());
}

std::int64_t JsonlFile::next_row(std::int64_t offset) const {
  const std::string_view bytes = file_.bytes();
  if (offset == 0 && bytes.starts_with("\xEF\xBB\xBF")) offset = 3;  // a byte order mark
  const std::size_t row = bytes.find_first_not_of(" \t\r\n", static_cast<std::size_t>(offset));
  return row == std::string_view::npos ? -1 : static_cast<std::int64_t>(row);
}

std::int64_t JsonlFile::end_of_row(std::int64_t row) const {
  const std::size_t newline = file_.bytes().find('\n', static_cast<std::size_t>(row));
  return static_cast<std::int64_t>(newline == std::string_view::npos ? file_.bytes().size() : newline);
}

void JsonlFile::each_row(std::int64_t begin, std::int64_t end, const std::function<void(std::int64_t)>& take) const {
  for (std::int64_t row = next_row(begin); row >= 0 && row < end; row = next_row(end_of_row(row))) take(row);
}

Row JsonlFile::parse(std::int64_t row, const RowWanted& wanted) const {
  try {
    return parse_row(text(row), wanted);
  } catch (const RowFault& fault) {
    fail(row, fault.why);
  }
}

Row JsonlFile::parse(std::int64_t row, const RowWanted& wanted, RowForm form) const {
  Row fields = parse(row, wanted);
  if (fields.form == form) return fields;
  const auto name = [&](RowForm of) {
    return of == RowForm::text ? wanted.text_keys.names.front() : std::string(to_string(of));
  };
  fail(row, fmt::format("this row has \"{}\", but the rows before it have \"{}\"; keep one kind in a file", name(fields.form),
                        name(form)));
}

void JsonlFile::fail(std::int64_t row, const std::string& why) const {
  throw Error(ErrorKind::input, fmt::format("{}: {}", file_.where(row), why));
}

}  // namespace pipetrain
