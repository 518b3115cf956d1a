#include "data/tokenize_files.hpp"

#include <fmt/format.h>

#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "core/error.hpp"
#include "data/formats.hpp"
#include "data/jsonl.hpp"
#include "files/mapped_file.hpp"

namespace pipetrain {
namespace {

namespace fs = std::filesystem;

std::int32_t end_of(const Tokenizer& tokenizer) {
  const auto end = tokenizer.end_of_text();
  if (!end)
    throw Error(ErrorKind::input,
                "the tokenizer's files name no token that ends a text, which stands between documents; give \"eos_token\" in a "
                "tokenizer_config.json beside it");
  return *end;
}

// Encodes documents with an encoder of its own: one for each thread.
class DocumentEncoder {
 public:
  explicit DocumentEncoder(const Tokenizer& tokenizer) : encoder_(tokenizer.encoder()), end_(end_of(tokenizer)) {}

  void add(std::string_view text, TokenizedDocuments& documents) {
    constexpr std::size_t largest = std::size_t{1} << 30;
    if (text.size() > largest)
      throw Error(ErrorKind::input,
                  fmt::format("a document of {} bytes cannot be tokenized; split it into parts of up to 1 GiB", text.size()));
    const std::size_t before = documents.ids.size();
    encoder_->encode(text, SpecialTokens::keep, documents.ids);
    if (documents.ids.size() == before || documents.ids.back() != end_) documents.ids.push_back(end_);
    documents.ends.push_back(documents.ids.size());
  }

 private:
  std::unique_ptr<TextEncoder> encoder_;
  std::int32_t end_;
};

// What one thread encodes at a time.
struct Part {
  std::shared_ptr<const JsonlTexts> rows;  // null for a text file
  fs::path text;
  std::int64_t begin = 0, end = 0;
};

// The parts of files, one after the other.
class Parts {
 public:
  explicit Parts(const std::vector<fs::path>& files) : files_(files) {}

  std::optional<Part> next() {
    constexpr std::int64_t bytes = 1 << 20;
    while (!rows_ || at_ >= rows_->size()) {
      rows_ = nullptr;
      if (file_ == files_.size()) return std::nullopt;
      const fs::path& file = files_[file_++];
      if (format_of(file)->kind == DataKind::text) return Part{nullptr, file};
      rows_ = std::make_shared<JsonlTexts>(file);
      at_ = 0;
    }
    Part part{rows_, {}, at_, rows_->end_of_part(at_, bytes)};
    at_ = part.end;
    return part;
  }

 private:
  const std::vector<fs::path>& files_;
  std::size_t file_ = 0;
  std::shared_ptr<const JsonlTexts> rows_;
  std::int64_t at_ = 0;
};

TokenizedDocuments encode(const Part& part, DocumentEncoder& encoder) {
  TokenizedDocuments documents;
  if (part.rows) {
    part.rows->read_part(part.begin, part.end, [&](std::string_view text) { encoder.add(text, documents); });
  } else {
    const MappedFile file(part.text);
    encoder.add(file.bytes(), documents);
  }
  return documents;
}

// Threads take parts in order; results are used in the same order.
class Workers {
 public:
  Workers(const std::vector<fs::path>& files, const Tokenizer& tokenizer, int threads)
      : tokenizer_(tokenizer), parts_(files), most_waiting_(2 * static_cast<std::size_t>(threads)) {
    for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
  }
  ~Workers() {
    {
      const std::scoped_lock lock(mutex_);
      stopped_ = true;
    }
    changed_.notify_all();
    for (auto& thread : threads_) thread.join();
  }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // The next result; nothing at the end. Throws what its part threw.
  std::optional<TokenizedDocuments> next() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return results_.contains(taken_) || (ended_ && taken_ == given_); });
    if (!results_.contains(taken_)) return std::nullopt;
    Result result = std::move(results_.extract(taken_++).mapped());
    lock.unlock();
    changed_.notify_all();
    if (result.failure) std::rethrow_exception(result.failure);
    return std::move(result.documents);
  }

 private:
  struct Result {
    TokenizedDocuments documents;
    std::exception_ptr failure;
  };

  void work() {
    std::optional<DocumentEncoder> encoder;
    while (true) {
      Result result;
      std::optional<Part> part;
      const auto turn = take_turn(part, result.failure);
      if (!turn) return;
      try {
        if (!encoder) encoder.emplace(tokenizer_);
        if (part) result.documents = encode(*part, *encoder);
      } catch (...) {
        result.failure = std::current_exception();
      }
      const std::scoped_lock lock(mutex_);
      results_.emplace(*turn, std::move(result));
      changed_.notify_all();
    }
  }

  // The next part for this thread; nothing at the end. A file that cannot be opened fails when its result is due.
  std::optional<std::size_t> take_turn(std::optional<Part>& part, std::exception_ptr& failure) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return stopped_ || ended_ || given_ < taken_ + most_waiting_; });
    if (stopped_ || ended_) return std::nullopt;
    try {
      part = parts_.next();
    } catch (...) {
      failure = std::current_exception();
    }
    ended_ = !part;
    if (ended_) changed_.notify_all();
    return part || failure ? std::optional(given_++) : std::nullopt;
  }

  const Tokenizer& tokenizer_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Parts parts_;
  std::size_t most_waiting_, given_ = 0, taken_ = 0;
  bool ended_ = false, stopped_ = false;
  std::map<std::size_t, Result> results_;
  std::vector<std::thread> threads_;
};

template <class Id>
class TokensInMemory : public TokenStream {
 public:
  void add(const TokenizedDocuments& documents) {
    for (const std::int32_t id : documents.ids) ids_.push_back(static_cast<Id>(id));
  }
  std::int64_t size() const override { return std::ssize(ids_); }
  void read(std::int64_t first, std::span<std::int32_t> tokens) const override {
    std::copy_n(ids_.begin() + first, tokens.size(), tokens.begin());
  }
  std::uint64_t content(std::int64_t) const override { return checksum(ids_.data(), ids_.size() * sizeof(Id)); }

 private:
  std::vector<Id> ids_;
};

// fill(take) calls take(documents) for all.
template <class Fill>
std::unique_ptr<TokenStream> in_memory(const Tokenizer& tokenizer, const Fill& fill) {
  const auto make = [&](auto stream) -> std::unique_ptr<TokenStream> {
    fill([&](const TokenizedDocuments& documents) { stream->add(documents); });
    return stream;
  };
  if (tokenizer.vocabulary() <= 65536) return make(std::make_unique<TokensInMemory<std::uint16_t>>());
  return make(std::make_unique<TokensInMemory<std::int32_t>>());
}

}  // namespace

void tokenize_files(const std::vector<fs::path>& files, const Tokenizer& tokenizer, int threads,
                    const std::function<void(TokenizedDocuments&&)>& take) {
  end_of(tokenizer);
  Workers workers(files, tokenizer, std::max(threads, 1));
  while (auto documents = workers.next()) take(std::move(*documents));
}

TokenizedDocuments tokenize_text(std::string_view text, const Tokenizer& tokenizer) {
  TokenizedDocuments documents;
  DocumentEncoder(tokenizer).add(text, documents);
  return documents;
}

std::unique_ptr<TokenStream> tokenized_in_memory(const std::vector<fs::path>& files, const Tokenizer& tokenizer, int threads) {
  return in_memory(tokenizer, [&](const auto& take) { tokenize_files(files, tokenizer, threads, take); });
}

std::unique_ptr<TokenStream> tokenized_in_memory(std::string_view text, const Tokenizer& tokenizer) {
  return in_memory(tokenizer, [&](const auto& take) { take(tokenize_text(text, tokenizer)); });
}

}  // namespace pipetrain
