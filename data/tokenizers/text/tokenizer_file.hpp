// Reads the contents of a tokenizer.json, before its components are made. Internal to data/.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/tokenizers/text/vocabulary.hpp"
#include "files/json.hpp"

namespace pipetrain {

// Pairs of pieces, in the order of their ranks.
class MergeList {
 public:
  void add(std::string_view left, std::string_view right);
  // Adds "left right", with one space. Returns false for a line of another form.
  bool add_line(std::string_view line);
  std::size_t size() const { return pairs_.size(); }
  std::pair<std::string_view, std::string_view> operator[](std::size_t rank) const;

 private:
  struct Pair {
    std::size_t begin;
    std::uint32_t left, right;
  };
  std::string text_;
  std::vector<Pair> pairs_;
};

struct TokenizerFile {
  Json parts;  // everything except the following
  std::shared_ptr<Vocabulary> vocabulary = std::make_shared<Vocabulary>();
  std::vector<double> scores;  // for a Unigram model, by id
  MergeList merges;
  bool has_merges = false;  // merges may be present but empty
};

// Takes time linear in the text. Throws Error(input) with file and line.
TokenizerFile read_tokenizer_file(std::string_view text, const std::string& file);

// Reads {"piece": id, ...}. Throws Error(input) with file and line.
std::shared_ptr<Vocabulary> read_vocabulary_file(std::string_view text, const std::string& file);

}  // namespace pipetrain
