#include "files/text_encoding.hpp"

#include <fmt/format.h>

#include "core/error.hpp"

namespace pipetrain {

void refuse_utf16(std::string_view text, const std::string& file) {
  using namespace std::string_view_literals;
  if (!text.starts_with("\xFF\xFE"sv) && !text.starts_with("\xFE\xFF"sv) && !text.starts_with("\0\0\xFE\xFF"sv)) return;
  const bool is_utf32 = text.starts_with("\xFF\xFE\0\0"sv) || text.starts_with("\0\0"sv);
  const char* const name = is_utf32 ? "UTF-32" : "UTF-16";
  throw Error(ErrorKind::input, fmt::format("{}: is text in {}, by its byte-order mark; convert it to UTF-8, for example with "
                                            "iconv -f {} -t UTF-8",
                                            file, name, name));
}

}  // namespace pipetrain
