#include "data/formats/mapped_tokens.hpp"

#include <fmt/format.h>

#include <cstring>

#include "core/error.hpp"

namespace pipetrain {
namespace {

template <class Id>
void copy_ids(const char* from, std::span<std::int32_t> tokens) {
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    Id id;
    std::memcpy(&id, from + i * sizeof id, sizeof id);
    tokens[i] = static_cast<std::int32_t>(id);
  }
}

class MappedTokens : public TokenStream {
 public:
  MappedTokens(std::unique_ptr<MappedFile> file, const TokenRange& range, std::int64_t vocabulary, DocumentEnds ends)
      : file_(std::move(file)), range_(range), vocabulary_(vocabulary), ends_(std::move(ends)) {
    if (file_->bytes().size() <= most_bytes_checked_at_once) check_all();
    file_->expect_random_reads();
  }

  std::int64_t size() const override { return range_.count; }

  void read(std::int64_t first, std::span<std::int32_t> tokens) const override {
    const char* from = file_->bytes().data() + range_.begin + static_cast<std::size_t>(first * range_.width);
    range_.width == 2 ? copy_ids<std::uint16_t>(from, tokens) : copy_ids<std::uint32_t>(from, tokens);
    // One pass without branches: an id above 31 bits is negative as a signed number, and above every vocabulary as an
    // unsigned one.
    std::uint32_t largest = 0;
    for (const std::int32_t id : tokens) largest = std::max(largest, static_cast<std::uint32_t>(id));
    if (largest >= vocabulary_) fail(first, tokens);
  }

  void find_documents() const override {
    if (!ends_.end)
      throw Error(ErrorKind::input,
                  fmt::format("{}: does not say where its documents end, so they cannot be isolated; pack them "
                              "as one stream",
                              file_->path().string()));
    std::int64_t last = 0;
    for (std::int64_t i = 0; i < ends_.count; ++i) {
      const std::int64_t end = ends_.end(i);
      if (end < last || end > range_.count)
        throw Error(ErrorKind::input,
                    fmt::format("{}: its document {} ends at id {}, out of order; the file is damaged: copy it again",
                                file_->path().string(), i, end));
      last = end;
    }
  }

  void add_document_begins(std::int64_t first, std::int64_t last, std::vector<std::int64_t>& begins) const override {
    std::int64_t low = 0, high = ends_.count;  // the first document that ends after `first`
    while (low < high) {
      const std::int64_t middle = low + (high - low) / 2;
      ends_.end(middle) > first ? high = middle : low = middle + 1;
    }
    std::int64_t before = first;
    for (; low < ends_.count; ++low) {
      const std::int64_t end = ends_.end(low);
      if (end > last || end >= range_.count) break;
      if (end > before) begins.push_back(before = end);  // documents may be empty
    }
  }

  std::uint64_t content(std::int64_t stride) const override {
    return content_of_blocks(range_.count * range_.width, stride, [this](std::int64_t first, std::int64_t bytes) {
      return file_->fetch(range_.begin + static_cast<std::size_t>(first), static_cast<std::size_t>(bytes));
    });
  }

 private:
  void check_all() const {
    std::vector<std::int32_t> some(static_cast<std::size_t>(std::min<std::int64_t>(range_.count, 1 << 16)));
    for (std::int64_t first = 0; first < range_.count; first += std::ssize(some))
      read(first,
           std::span(some).first(static_cast<std::size_t>(std::min<std::int64_t>(std::ssize(some), range_.count - first))));
  }

  [[noreturn]] void fail(std::int64_t first, std::span<const std::int32_t> tokens) const {
    const auto wrong = std::find_if(tokens.begin(), tokens.end(),
                                    [this](std::int32_t id) { return static_cast<std::uint32_t>(id) >= vocabulary_; });
    throw Error(ErrorKind::input,
                fmt::format("{}: token {} is {}, outside the model's vocabulary of {}; token ids go from 0 to {}: tokenize "
                            "for this model",
                            file_->path().string(), first + (wrong - tokens.begin()), static_cast<std::uint32_t>(*wrong),
                            vocabulary_, vocabulary_ - 1));
  }

  std::unique_ptr<MappedFile> file_;
  TokenRange range_;
  std::int64_t vocabulary_;
  DocumentEnds ends_;
};

}  // namespace

std::unique_ptr<TokenStream> tokens_in_file(std::unique_ptr<MappedFile> file, const TokenRange& range, std::int64_t vocabulary,
                                            DocumentEnds ends) {
  return std::make_unique<MappedTokens>(std::move(file), range, vocabulary, std::move(ends));
}

}  // namespace pipetrain
