#include "data/formats/foreign_token_files.hpp"

#include <fmt/format.h>

#include <cstring>

#include "core/error.hpp"
#include "data/formats/mapped_tokens.hpp"

namespace pipetrain {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail_foreign_tokens(const fs::path& path, const std::string& what) {
  throw Error(ErrorKind::input, fmt::format("{}: {}", path.string(), what));
}

template <class Number>
Number number_at(std::string_view bytes, std::uint64_t offset) {
  Number number;
  std::memcpy(&number, bytes.data() + offset, sizeof number);
  return number;
}

// Checks that the index is not empty, with a message that names the contents it should have.
const fs::path& full_index(const fs::path& path) {
  std::error_code ignored;
  if (fs::file_size(path, ignored) == 0)
    fail_foreign_tokens(path, "is empty, but should describe the file of ids next to it; copy both again");
  return path;
}

fs::path with_extension(fs::path path, const char* extension) { return path.replace_extension(extension); }

// NAME.idx: "MMIDIDX" and two zeros, u64 version 1, u8 type, u64 sequences, u64 documents, i32 lengths of the
// sequences, i64 offsets of the sequences in the .bin, i64 index of each document's first sequence.
class MegatronIndex {
 public:
  explicit MegatronIndex(const fs::path& path) : file_(full_index(path)), bytes_(file_.bytes()) {
    if (bytes_.size() < begin_ || bytes_.substr(0, 9) != std::string_view("MMIDIDX\0\0", 9))
      fail_foreign_tokens(path, "does not begin with MMIDIDX: it is not an index of Megatron-LM; give its .idx");
    if (const auto version = number_at<std::uint64_t>(bytes_, 9); version != 1)
      fail_foreign_tokens(
          path,
          fmt::format("is an index of version {}; version 1 is read; write it again with Megatron-LM's preprocess_data.py",
                      version));
    const auto type = number_at<std::uint8_t>(bytes_, 17);
    if (type != 4 && type != 8)
      fail_foreign_tokens(
          path,
          fmt::format("its ids are of type {}; int32 (4) and uint16 (8) are read; write it again with one of them", type));
    width_ = type == 4 ? 4 : 2;
    sequences_ = number_at<std::uint64_t>(bytes_, 18);
    documents_ = number_at<std::uint64_t>(bytes_, 26);
    const std::uint64_t room = bytes_.size() - begin_;
    if (sequences_ == 0 && room == documents_ * 8)
      fail_foreign_tokens(path, "is the index of no sequence at all; write the file again from data with text in it");
    if (sequences_ == 0 || sequences_ > room / 12 || documents_ > room / 8 || sequences_ * 12 + documents_ * 8 != room)
      fail_foreign_tokens(path, fmt::format("has {} bytes, which {} sequences and {} documents do not fill; copy it again",
                                            bytes_.size(), sequences_, documents_));
  }

  // Returns how many ids the .bin holds; its sequences are contiguous.
  std::int64_t count() {
    std::int64_t& count = count_ = 0;
    for (std::uint64_t i = 0; i < sequences_; ++i) {
      const auto length = number_at<std::int32_t>(bytes_, begin_ + 4 * i);
      const auto pointer = number_at<std::int64_t>(bytes_, begin_ + 4 * sequences_ + 8 * i);
      if (length < 0 || pointer != count * width_)
        fail_foreign_tokens(
            file_.path(),
            fmt::format(
                "sequence {} has {} ids from byte {} on, not from {}; sequences with gaps are not read; write the file again",
                i, length, pointer, count * width_));
      count += length;
    }
    return count;
  }
  int width() const { return width_; }

  std::int64_t documents() const { return static_cast<std::int64_t>(documents_); }
  // Returns the end of a document, counted in ids, which is the beginning of the next one. Negative if the index has no
  // such sequence.
  std::int64_t end_of_document(std::int64_t document) const {
    const std::uint64_t next = static_cast<std::uint64_t>(document) + 1;
    if (next >= documents_) return count_;
    const auto sequence = number_at<std::uint64_t>(bytes_, begin_ + 12 * sequences_ + 8 * next);
    if (sequence > sequences_) return -1;
    return sequence == sequences_ ? count_ : number_at<std::int64_t>(bytes_, begin_ + 4 * sequences_ + 8 * sequence) / width_;
  }

 private:
  static constexpr std::uint64_t begin_ = 34;
  MappedFile file_;
  std::string_view bytes_;
  int width_ = 0;
  std::uint64_t sequences_ = 0, documents_ = 0;
  std::int64_t count_ = 0;
};

void check_size(const MappedFile& file, const TokenRange& range, const fs::path& said_by) {
  const std::uint64_t room = file.bytes().size() - range.begin;
  if (range.count < 1) fail_foreign_tokens(said_by, "says that there are no ids; give a file with data in it");
  if (room % static_cast<std::uint64_t>(range.width) != 0 ||
      room / static_cast<std::uint64_t>(range.width) != static_cast<std::uint64_t>(range.count))
    fail_foreign_tokens(
        file.path(),
        fmt::format("has {} bytes of ids, but {} says {} ids of {} bytes; the file is cut short or another's: copy both again",
                    room, said_by.filename().string(), range.count, range.width));
}

}  // namespace

std::unique_ptr<TokenStream> open_megatron_file(const fs::path& path, std::int64_t vocabulary) {
  const fs::path bin = with_extension(path, ".bin"), idx = with_extension(path, ".idx");
  const auto index = std::make_shared<MegatronIndex>(idx);
  auto file = std::make_unique<MappedFile>(bin);
  const TokenRange range{0, index->count(), index->width()};
  check_size(*file, range, idx);
  return tokens_in_file(std::move(file), range, vocabulary,
                        {index->documents(), [index](std::int64_t document) { return index->end_of_document(document); }});
}

std::unique_ptr<TokenStream> open_llmc_file(const fs::path& bin, std::int64_t vocabulary) {
  constexpr std::size_t header = 256 * 4;
  auto file = std::make_unique<MappedFile>(bin);
  const std::string_view bytes = file->bytes();
  const auto field = [&](std::uint64_t i) { return number_at<std::int32_t>(bytes, 4 * i); };
  const bool gpt2 = bytes.size() >= 4 && field(0) == 20240520, llama3 = bytes.size() >= 4 && field(0) == 20240801;
  if (!gpt2 && !llama3)
    fail_foreign_tokens(
        bin,
        "there is no index .idx next to it, as Megatron-LM writes, and it does not begin with a number of llm.c (20240520, "
        "20240801)");
  if (bytes.size() < header)
    fail_foreign_tokens(bin, fmt::format("is shorter than the {} bytes of llm.c's header; copy it again", header));
  if (const int version = gpt2 ? 1 : 7; field(1) != version)
    fail_foreign_tokens(
        bin, fmt::format("is a file of llm.c of version {}; version {} is read; write it again with llm.c's scripts", field(1),
                         version));
  const TokenRange range{header, field(2), gpt2 ? 2 : 4};
  check_size(*file, range, bin);
  return tokens_in_file(std::move(file), range, vocabulary);
}

std::unique_ptr<TokenStream> open_datatrove_file(const fs::path& ds, std::int64_t vocabulary) {
  const fs::path index_path = ds.string() + ".index";
  std::error_code ignored;
  if (!fs::exists(index_path, ignored))
    fail_foreign_tokens(ds, fmt::format("there is no {} next to it; copy it too", index_path.filename().string()));
  const auto index = std::make_shared<MappedFile>(full_index(index_path));
  auto file = std::make_unique<MappedFile>(ds);
  const std::string_view ends = index->bytes();
  if (ends.size() % 8 != 0)
    fail_foreign_tokens(index_path, fmt::format("has {} bytes, which are not numbers of 8 bytes; copy it again", ends.size()));
  std::uint64_t last = 0;
  for (std::uint64_t at = 0; at < ends.size(); at += 8) {
    const auto end = number_at<std::uint64_t>(ends, at);
    if (end < last)
      fail_foreign_tokens(index_path, fmt::format("document {} ends before the previous one; copy it again", at / 8));
    last = end;
  }
  const std::uint64_t bytes = file->bytes().size();
  const bool four = last <= bytes / 4 && last * 4 == bytes, two = last <= bytes / 2 && last * 2 == bytes;
  if (last == 0 || (!two && !four))
    fail_foreign_tokens(
        ds, fmt::format(
                "has {} bytes, but {} says {} ids, of 2 or 4 bytes each; the file is cut short or another's: copy both again",
                bytes, index_path.filename().string(), last));
  const auto end = [index](std::int64_t document) {
    return number_at<std::int64_t>(index->bytes(), 8 * static_cast<std::uint64_t>(document));
  };
  return tokens_in_file(std::move(file), {0, static_cast<std::int64_t>(last), two ? 2 : 4}, vocabulary,
                        {static_cast<std::int64_t>(ends.size() / 8), end});
}

}  // namespace pipetrain
