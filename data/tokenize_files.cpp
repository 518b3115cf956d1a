#include "data/tokenize_files.hpp"

#include <fmt/format.h>

#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "core/error.hpp"
#include "data/formats/formats.hpp"
#include "data/rows/jsonl.hpp"
#include "data/rows/jsonl_file.hpp"
#include "data/rows/row_encoder.hpp"
#include "files/text_encoding.hpp"
#include "files/unpacked_file.hpp"

namespace pipetrain {
namespace {

namespace fs = std::filesystem;

void add_text(std::string_view text, const std::string& name, RowEncoder& encoder, TokenizedDocuments& documents) {
  constexpr std::size_t largest = std::size_t{1} << 30;
  if (text.size() > largest)
    throw Error(ErrorKind::input,
                fmt::format("a document of {} bytes cannot be tokenized; split it into parts of up to 1 GiB", text.size()));
  try {
    encoder.add(text, documents);
  } catch (const RowFault& fault) {
    throw Error(ErrorKind::input, fmt::format("{}: {}", name, fault.why));
  }
}

TokenizedDocuments tokenize_one(std::string_view text, const TextReading& reading) {
  TokenizedDocuments documents;
  RowEncoder encoder(reading);
  add_text(text, "the text", encoder, documents);
  return documents;
}

// The rows of one file, all of the form of its first one.
class RowFile {
 public:
  RowFile(const fs::path& path, const TextReading& reading)
      : file_(path, wanted_of(reading)),
        form_(reading.reads_preferences() ? RowForm::text : peek_jsonl(path, wanted_of(reading)).form),
        reading_(reading) {
    const char* why =
        form_ == RowForm::ids ? "have token ids already; give rows of text"
        : reading.only_texts && form_ != RowForm::text
            ? "say which of their tokens count, which a file of tokens cannot keep; give them to a run as they are"
            : nullptr;
    if (why != nullptr) file_.fail(file_.next_row(0), fmt::format("rows with \"{}\" {}", to_string(form_), why));
  }

  std::int64_t size() const { return file_.size(); }
  std::int64_t end_of_part(std::int64_t begin, std::int64_t bytes) const {
    return begin + bytes >= size() ? size() : file_.end_of_row(begin + bytes);
  }
  void encode(std::int64_t begin, std::int64_t end, RowEncoder& encoder, TokenizedDocuments& documents) const {
    if (reading_.reads_preferences()) return encode_preferences(begin, end, encoder, documents);
    const RowWanted wanted = wanted_of(reading_);
    file_.each_row(begin, end, [&](std::int64_t offset) {
      const Row row = file_.parse(offset, wanted, form_);
      if (const std::string why = limits().wrong_class(row.label); !why.empty()) file_.fail(offset, why);
      if (form_ == RowForm::text && !row.label && is_empty(row)) return;
      try {
        encoder.add(row, documents);
      } catch (const RowFault& fault) {
        file_.fail(offset, fault.why);
      }
      if (const std::string why = wrong_sample(documents, documents.ends.size() - 1); !why.empty()) file_.fail(offset, why);
    });
  }

 private:
  void encode_preferences(std::int64_t begin, std::int64_t end, RowEncoder& encoder, TokenizedDocuments& documents) const {
    const PreferenceForm form = reading_.limits->preferences->form;
    file_.each_row(begin, end, [&](std::int64_t offset) {
      const std::size_t before = documents.ends.size();
      try {
        const PreferenceRow row = parse_preference_row(file_.text(offset), form, reading_.unread);
        encoder.add(row, documents);
        if (form == PreferenceForm::labelled) documents.desirable.push_back(row.desirable);
      } catch (const RowFault& fault) {
        file_.fail(offset, fault.why);
      }
      for (std::size_t document = before; document < documents.ends.size(); ++document)
        if (const std::string why = wrong_sample(documents, document); !why.empty()) file_.fail(offset, why);
    });
  }
  static RowWanted wanted_of(const TextReading& reading) {
    return {
        .text_keys = reading.text_keys, .classifies = reading.limits && reading.limits->classifies(), .unread = reading.unread};
  }
  static bool is_empty(const Row& row) {
    return std::all_of(row.texts.begin(), row.texts.end(), [](std::string_view text) { return text.empty(); });
  }
  RowLimits limits() const { return reading_.limits.value_or(RowLimits{}); }
  // Returns what is wrong with a document as a sample, or nothing.
  std::string wrong_sample(const TokenizedDocuments& documents, std::size_t document) const {
    if (!reading_.limits) return "";
    const std::size_t begin = document == 0 ? 0 : documents.ends[document - 1];
    return limits().wrong_length(static_cast<std::int64_t>(documents.ends[document] - begin), "tokens");
  }

  JsonlFile file_;
  RowForm form_;
  const TextReading& reading_;
};

// The text that one thread encodes at a time.
struct TextPart {
  std::shared_ptr<const RowFile> rows;  // null for a text file
  fs::path text;
  std::int64_t begin = 0, end = 0;
};

// The parts of all files, in order.
class TextParts {
 public:
  TextParts(const std::vector<fs::path>& files, const TextReading& reading) : files_(files), reading_(reading) {}

  std::optional<TextPart> next() {
    constexpr std::int64_t bytes = 1 << 20;
    while (!rows_ || at_ >= rows_->size()) {
      rows_ = nullptr;
      if (file_ == files_.size()) return std::nullopt;
      const fs::path& file = files_[file_++];
      if (format_of(file)->kind == DataKind::text) return TextPart{nullptr, file};
      rows_ = std::make_shared<RowFile>(file, reading_);
      at_ = 0;
    }
    TextPart part{rows_, {}, at_, rows_->end_of_part(at_, bytes)};
    at_ = part.end;
    return part;
  }

 private:
  const std::vector<fs::path>& files_;
  const TextReading& reading_;
  std::size_t file_ = 0;
  std::shared_ptr<const RowFile> rows_;
  std::int64_t at_ = 0;
};

TokenizedDocuments encode(const TextPart& part, const TextReading& reading, RowEncoder& encoder) {
  TokenizedDocuments documents;
  if (part.rows) {
    part.rows->encode(part.begin, part.end, encoder, documents);
    return documents;
  }
  const MappedFile file = open_unpacked(part.text);
  refuse_utf16(file.bytes(), part.text.string());
  add_text(file.bytes(), part.text.string(), encoder, documents);
  if (!reading.limits) return documents;
  const std::string why = reading.limits->wrong_length(static_cast<std::int64_t>(documents.ids.size()), "tokens");
  if (!why.empty()) throw Error(ErrorKind::input, fmt::format("{}: {}", part.text.string(), why));
  return documents;
}

// Threads take parts in order; results are used in the same order.
class Workers {
 public:
  Workers(const std::vector<fs::path>& files, const TextReading& reading) : reading_(reading), parts_(files, reading) {
    const int threads = std::max(reading.threads, 1);
    most_waiting_ = 2 * static_cast<std::size_t>(threads);
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

  // Returns the next result; nothing at the end. Throws the error of its part.
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
    std::optional<RowEncoder> encoder;
    while (true) {
      Result result;
      std::optional<TextPart> part;
      const auto turn = take_turn(part, result.failure);
      if (!turn) return;
      try {
        if (!encoder) encoder.emplace(reading_);
        if (part) result.documents = encode(*part, reading_, *encoder);
      } catch (...) {
        result.failure = std::current_exception();
      }
      const std::scoped_lock lock(mutex_);
      results_.emplace(*turn, std::move(result));
      changed_.notify_all();
    }
  }

  // Takes the next part for this thread; returns nothing at the end. If a file cannot be opened, the error is thrown
  // when its result is due.
  std::optional<std::size_t> take_turn(std::optional<TextPart>& part, std::exception_ptr& failure) {
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

  const TextReading& reading_;
  std::mutex mutex_;
  std::condition_variable changed_;
  TextParts parts_;
  std::size_t most_waiting_ = 0, given_ = 0, taken_ = 0;
  bool ended_ = false, stopped_ = false;
  std::map<std::size_t, Result> results_;
  std::vector<std::thread> threads_;
};

template <class Id>
class TokensInMemory : public TokenStream {
 public:
  void add(const TokenizedDocuments& documents) {
    for (const std::size_t end : documents.ends) ends_.push_back(ids_.size() + end);
    for (const std::int32_t id : documents.ids) ids_.push_back(static_cast<Id>(id));
  }
  std::int64_t size() const override { return std::ssize(ids_); }
  void read(std::int64_t first, std::span<std::int32_t> tokens) const override {
    std::copy_n(ids_.begin() + first, tokens.size(), tokens.begin());
  }
  std::uint64_t content(std::int64_t) const override { return checksum(ids_.data(), ids_.size() * sizeof(Id)); }
  void add_document_begins(std::int64_t first, std::int64_t last, std::vector<std::int64_t>& begins) const override {
    add_ends(ends_, first, std::min(last, size() - 1), begins);
  }

 private:
  std::vector<Id> ids_;
  std::vector<std::uint64_t> ends_;  // of the documents
};

// fill(take) must call take(documents) for all documents.
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

void tokenize_files(const std::vector<fs::path>& files, const TextReading& reading,
                    const std::function<void(TokenizedDocuments&&)>& take) {
  RowEncoder{reading};  // throws here if the tokenizer is wrong
  Workers workers(files, reading);
  while (auto documents = workers.next()) take(std::move(*documents));
}

TokenizedDocuments tokenize_text(std::string_view text, const Tokenizer& tokenizer) {
  return tokenize_one(text, {.tokenizer = &tokenizer});
}

std::unique_ptr<TokenStream> tokenized_in_memory(const std::vector<fs::path>& files, const TextReading& reading) {
  return in_memory(*reading.tokenizer, [&](const auto& take) { tokenize_files(files, reading, take); });
}

std::unique_ptr<TokenStream> tokenized_in_memory(std::string_view text, const Tokenizer& tokenizer, std::int64_t vocabulary) {
  TextReading reading{.tokenizer = &tokenizer};
  reading.vocabulary = vocabulary;
  return in_memory(tokenizer, [&](const auto& take) { take(tokenize_one(text, reading)); });
}

}  // namespace pipetrain
