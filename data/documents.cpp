#include "data/documents.hpp"

#include <fmt/format.h>

#include <cassert>

#include "core/checksum.hpp"
#include "core/error.hpp"
#include "files/mapped_file.hpp"

namespace pipetrain {

namespace {

// The offset of the first byte that is no token of the vocabulary, or npos. Every byte is one from 256 on: no file is scanned.
std::size_t first_unknown_byte(std::string_view text, std::int64_t vocabulary) {
  if (vocabulary >= 256) return std::string_view::npos;
  const auto unknown =
      std::find_if(text.begin(), text.end(), [&](char c) { return static_cast<unsigned char>(c) >= vocabulary; });
  return unknown == text.end() ? std::string_view::npos : static_cast<std::size_t>(unknown - text.begin());
}

[[noreturn]] void fail_unknown_byte(const std::string& where, char byte, std::int64_t vocabulary) {
  throw Error(ErrorKind::input,
              fmt::format("{}: the byte {} is not below the vocabulary of {}; text is read as bytes, so take a model with a "
                          "vocabulary of 256 or more",
                          where, static_cast<unsigned char>(byte), vocabulary));
}

void copy_bytes(std::string_view text, std::int64_t first, std::span<std::int32_t> tokens) {
  const std::string_view part = text.substr(static_cast<std::size_t>(first), tokens.size());
  std::transform(part.begin(), part.end(), tokens.begin(), [](char c) { return static_cast<unsigned char>(c); });
}

class TextFile : public TokenStream {
 public:
  TextFile(const std::filesystem::path& path, std::int64_t vocabulary) : file_(path) {
    const std::size_t unknown = first_unknown_byte(file_.bytes(), vocabulary);
    if (unknown != std::string_view::npos)
      fail_unknown_byte(file_.where(static_cast<std::int64_t>(unknown)), file_.bytes()[unknown], vocabulary);
    file_.expect_random_reads();
  }
  std::int64_t size() const override { return static_cast<std::int64_t>(file_.bytes().size()); }
  void read(std::int64_t first, std::span<std::int32_t> tokens) const override { copy_bytes(file_.bytes(), first, tokens); }
  std::uint64_t content(std::int64_t stride) const override {
    return content_of_blocks(size(), stride, [this](std::int64_t first, std::int64_t bytes) {
      return file_.fetch(static_cast<std::size_t>(first), static_cast<std::size_t>(bytes));
    });
  }

 private:
  MappedFile file_;
};

class TextInMemory : public TokenStream {
 public:
  TextInMemory(std::string_view text, std::string_view name, std::int64_t vocabulary) : text_(text) {
    const std::size_t unknown = first_unknown_byte(text, vocabulary);
    if (unknown != std::string_view::npos) fail_unknown_byte(std::string(name), text[unknown], vocabulary);
  }
  std::int64_t size() const override { return static_cast<std::int64_t>(text_.size()); }
  void read(std::int64_t first, std::span<std::int32_t> tokens) const override { copy_bytes(text_, first, tokens); }
  std::uint64_t content(std::int64_t) const override { return checksum(text_.data(), text_.size()); }

 private:
  std::string_view text_;
};

class PackedDataset : public Dataset {
 public:
  PackedDataset(std::vector<std::unique_ptr<TokenStream>> streams, std::int64_t sequence_length,
                std::optional<std::int32_t> marker, const std::string& name)
      : Dataset(sequence_length), streams_(std::move(streams)), joints_(marker.has_value()), marker_(marker.value_or(0)) {
    for (const auto& stream : streams_) joints_.add(stream->size());
    if (size() < 1)
      throw Error(
          ErrorKind::input,
          fmt::format("{}: its {} tokens are too few for one sample of sequence length {}, which takes {}; give more data or "
                      "a smaller sequence length",
                      name, joints_.size(), sequence_length, sequence_length + 1));
    content_ = content_of_streams();
  }

  std::int64_t size() const override { return (joints_.size() - 1) / sequence_length(); }

  using Dataset::read;
  void read(std::int64_t index, Sample& sample) const override {
    assert(index >= 0);
    sample.ids.resize(static_cast<std::size_t>(sequence_length()) + 1);
    joints_.read(
        index % size() * sequence_length(), sample.ids, marker_,
        [this](std::size_t stream, std::int64_t first, std::span<std::int32_t> part) { streams_[stream]->read(first, part); });
    label_with_next_ids(sample);
    sample.documents.clear();
  }

  std::uint64_t content() const override { return content_; }

 private:
  static constexpr std::int64_t most_blocks = 1024;

  std::uint64_t content_of_streams() const {
    const std::int64_t stride = std::max(content_block, joints_.size() / most_blocks);
    Checksum sum;
    for (const auto& stream : streams_) {
      sum.add(static_cast<std::uint64_t>(stream->size()));
      sum.add(stream->content(stride));
    }
    return sum.value();
  }

  std::vector<std::unique_ptr<TokenStream>> streams_;
  Joints joints_;
  std::int32_t marker_;
  std::uint64_t content_ = 0;
};

}  // namespace

std::int32_t end_of_document(std::int64_t vocabulary) { return vocabulary > 256 ? 256 : '\n'; }

std::unique_ptr<TokenStream> open_text_file(const std::filesystem::path& path, std::int64_t vocabulary) {
  return std::make_unique<TextFile>(path, vocabulary);
}

std::unique_ptr<TokenStream> text_in_memory(std::string_view text, std::string_view name, std::int64_t vocabulary) {
  return std::make_unique<TextInMemory>(text, name, vocabulary);
}

std::unique_ptr<Dataset> pack(std::vector<std::unique_ptr<TokenStream>> streams, std::int64_t sequence_length,
                              std::optional<std::int32_t> marker, const std::string& name) {
  return std::make_unique<PackedDataset>(std::move(streams), sequence_length, marker, name);
}

}  // namespace pipetrain
