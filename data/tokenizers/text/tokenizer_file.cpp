#include "data/tokenizers/text/tokenizer_file.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "data/tokenizers/text/component.hpp"
#include "files/json_builder.hpp"
#include "files/json_fault.hpp"

namespace pipetrain {
namespace {

// Reads a number as Hugging Face's library does: its digits as one integer, times a power of ten. The result can differ
// in the last bit, which decides between segmentations of equal probability.
double as_library_reads(double score) {
  std::array<char, 32> text{};
  const char* const end =
      std::to_chars(text.data(), text.data() + text.size(), std::abs(score), std::chars_format::scientific).ptr;
  std::uint64_t digits = 0;
  int exponent = 0;
  const char* at = text.data();
  for (; at != end && *at != 'e'; ++at) {
    if (*at == '.') continue;
    digits = digits * 10 + static_cast<std::uint64_t>(*at - '0');
    if (at != text.data()) --exponent;
  }
  int written = 0;
  if (at != end) std::from_chars(at + (at[1] == '+' ? 2 : 1), end, written);
  exponent += written;
  const double power = std::pow(10.0, std::abs(exponent));
  const double value = exponent < 0 ? static_cast<double>(digits) / power : static_cast<double>(digits) * power;
  return std::copysign(value, score);
}

JsonFault damaged(std::size_t line, const std::string& what) {
  return JsonFault(line, fmt::format("{}; {}", what, tokenizer_file_remedy));
}

// {"piece": id, ...} or [["piece", score], ...]. Events come with the depth below the vocabulary itself.
class VocabularyReader {
 public:
  VocabularyReader(Vocabulary& vocabulary, std::vector<double>& scores) : vocabulary_(vocabulary), scores_(scores) {}

  void open(JsonKind kind, int depth) {
    if (depth == 0) is_list_ = kind == JsonKind::array;
    if (depth > 1 || (depth == 1 && (!is_list_ || kind != JsonKind::array))) fail();
    elements_ = 0;
  }
  void close(int depth) {
    if (depth == 1 && elements_ != 2) fail();
  }
  void key(std::string&& name, std::size_t line) {
    line_ = line;
    piece_ = std::move(name);
  }
  void value(Json&& value, int depth) {
    if (depth == 0) throw damaged(line_, "the vocabulary is neither an object nor an array");
    if (depth == 1 && !is_list_) return add_id(value);
    if (depth != 2 || ++elements_ > 2) fail();
    if (elements_ == 1) {
      if (!value.is_string()) fail();
      piece_ = std::move(value.as_string());
    } else {
      add_score(value);
    }
  }

 private:
  [[noreturn]] void fail() const {
    throw damaged(line_, is_list_ ? R"(the vocabulary's elements are not all ["piece", score])"
                                  : R"(the vocabulary's members are not all "piece": id)");
  }
  void add_id(const Json& id) {
    if (!id.is_unsigned() || id.as_uint64() >= static_cast<std::uint64_t>(Vocabulary::most_ids))
      throw damaged(line_, fmt::format("the id of piece {} is not an integer from 0 to {}",
                                       shown_json_key(piece_.substr(0, 60)), Vocabulary::most_ids - 1));
    if (vocabulary_.find(piece_))
      throw JsonFault(line_, fmt::format("piece {} appears twice; keep one", shown_json_key(piece_.substr(0, 60))));
    if (!vocabulary_.add(piece_, static_cast<std::int32_t>(id.as_uint64())))
      throw damaged(
          line_,
          fmt::format("pieces {} and {} have the same id {}", shown_json_key(piece_.substr(0, 60)),
                      shown_json_key(std::string(vocabulary_.piece(static_cast<std::int32_t>(id.as_uint64()))).substr(0, 60)),
                      static_cast<std::int32_t>(id.as_uint64())));
  }
  void add_score(const Json& score) {
    if (!score.is_number()) fail();
    if (vocabulary_.size() == Vocabulary::most_ids)
      throw damaged(line_, fmt::format("the vocabulary has more than {} pieces", Vocabulary::most_ids));
    vocabulary_.add(piece_, vocabulary_.size());
    scores_.push_back(as_library_reads(score.as_double()));
  }

  Vocabulary& vocabulary_;
  std::vector<double>& scores_;
  bool is_list_ = false;
  int elements_ = 0;
  std::string piece_;
  std::size_t line_ = 1;
};

// ["left right", ...] or [["left", "right"], ...].
class MergesReader {
 public:
  explicit MergesReader(MergeList& merges) : merges_(merges) {}

  void open(JsonKind kind, int depth) {
    if (kind != JsonKind::array || depth > 1) fail();
    pair_.clear();
  }
  void close(int depth) {
    if (depth == 0) return;
    if (pair_.size() != 2) fail();
    merges_.add(pair_[0], pair_[1]);
  }
  void value(Json&& value, int depth) {
    if (!value.is_string() || depth == 0 || depth > 2 || pair_.size() == 2) fail();
    if (depth == 2) {
      pair_.push_back(std::move(value.as_string()));
    } else if (!merges_.add_line(value.as_string())) {
      fail();
    }
    if (depth == 1) pair_.clear();
  }
  void begin(std::size_t line) { line_ = line; }

 private:
  [[noreturn]] void fail() const {
    throw damaged(line_, fmt::format(R"(merge {} is neither "left right" nor ["left", "right"])", merges_.size()));
  }

  MergeList& merges_;
  std::vector<std::string> pair_;
  std::size_t line_ = 1;
};

// Passes the vocabulary and the merges, which are large, to readers of their own; keeps the rest.
class FileEvents : public JsonEvents {
 public:
  explicit FileEvents(TokenizerFile& file) : file_(file), vocabulary_(*file.vocabulary, file.scores), merges_(file.merges) {}

  void open(JsonKind kind) override {
    if (depth_ == 0 && kind != JsonKind::object) throw damaged(1, "not a JSON object");
    if (reader_ != Reader::rest) {
      const int depth = depth_ - 2;
      reader_ == Reader::vocabulary ? vocabulary_.open(kind, depth) : merges_.open(kind, depth);
    } else {
      count();
      rest_.open(kind);
    }
    ++depth_;
  }
  void close() override {
    --depth_;
    const int depth = depth_ - 2;
    if (reader_ == Reader::rest) return rest_.close();
    reader_ == Reader::vocabulary ? vocabulary_.close(depth) : merges_.close(depth);
    if (depth == 0) reader_ = Reader::rest;
  }
  void key(std::string&& name, std::size_t line) override {
    line_ = line;
    if (reader_ == Reader::vocabulary) return vocabulary_.key(std::move(name), line);
    if (reader_ == Reader::merges) throw damaged(line, "the merges hold an object");
    if (depth_ == 1) in_model_ = name == "model";
    const bool large = depth_ == 2 && in_model_;
    if (large && name == "vocab") reader_ = Reader::vocabulary;
    if (large && name == "merges") reader_ = Reader::merges;
    file_.has_merges = file_.has_merges || reader_ == Reader::merges;
    merges_.begin(line);
    rest_.key(std::move(name), line);
    if (reader_ != Reader::rest) rest_.value(Json());  // marks the key, so that a second one is refused as a duplicate
    if (reader_ == Reader::vocabulary) vocabulary_.key("", line);
  }
  void value(Json&& value) override {
    if (depth_ == 0) throw damaged(1, "not a JSON object");
    if (reader_ == Reader::rest) {
      count();
      return rest_.value(std::move(value));
    }
    reader_ == Reader::vocabulary ? vocabulary_.value(std::move(value), depth_ - 2)
                                  : merges_.value(std::move(value), depth_ - 2);
  }

  Json take_rest() { return rest_.take(); }

 private:
  enum class Reader { rest, vocabulary, merges };

  void count() {
    if (++values_ > JsonLimits().values)
      throw damaged(line_,
                    fmt::format("it has more than {} values besides the vocabulary and the merges", JsonLimits().values));
  }

  TokenizerFile& file_;
  VocabularyReader vocabulary_;
  MergesReader merges_;
  JsonBuilder rest_;
  Reader reader_ = Reader::rest;
  bool in_model_ = false;
  int depth_ = 0;
  std::size_t values_ = 0, line_ = 1;
};

class VocabularyEvents : public JsonEvents {
 public:
  explicit VocabularyEvents(VocabularyReader& reader) : reader_(reader) {}
  void open(JsonKind kind) override {
    if (depth_ == 0 && kind != JsonKind::object) throw damaged(1, "not a JSON object");
    reader_.open(kind, depth_++);
  }
  void close() override { reader_.close(--depth_); }
  void key(std::string&& name, std::size_t line) override { reader_.key(std::move(name), line); }
  void value(Json&& value) override { reader_.value(std::move(value), depth_); }

 private:
  VocabularyReader& reader_;
  int depth_ = 0;
};

constexpr JsonLimits any_number{.values = 0};

}  // namespace

void MergeList::add(std::string_view left, std::string_view right) {
  pairs_.push_back({text_.size(), static_cast<std::uint32_t>(left.size()), static_cast<std::uint32_t>(right.size())});
  text_ += left;
  text_ += right;
}

bool MergeList::add_line(std::string_view line) {
  const std::size_t space = line.find(' ');
  if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos) return false;
  add(line.substr(0, space), line.substr(space + 1));
  return true;
}

std::pair<std::string_view, std::string_view> MergeList::operator[](std::size_t rank) const {
  const Pair& pair = pairs_[rank];
  const std::string_view text = text_;
  return {text.substr(pair.begin, pair.left), text.substr(pair.begin + pair.left, pair.right)};
}

TokenizerFile read_tokenizer_file(std::string_view text, const std::string& file) {
  TokenizerFile result;
  FileEvents events(result);
  read_json(whole_text(text), {file}, any_number, events);
  result.parts = events.take_rest();
  return result;
}

std::shared_ptr<Vocabulary> read_vocabulary_file(std::string_view text, const std::string& file) {
  auto vocabulary = std::make_shared<Vocabulary>();
  std::vector<double> scores;
  VocabularyReader reader(*vocabulary, scores);
  VocabularyEvents events(reader);
  read_json(whole_text(text), {file}, any_number, events);
  return vocabulary;
}

}  // namespace pipetrain
