// The tokens that are added to a model's vocabulary, numbered as Hugging Face's library numbers them. Internal to data/.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/tokenizers/added_tokens.hpp"
#include "data/tokenizers/text/vocabulary.hpp"

namespace pipetrain {

// A token whose content has an id already, as an added token or as a piece of the model, keeps it; another one gets the
// next id after the model's pieces and the earlier added tokens. The library ignores the ids that files give, so a file
// with other ids is refused: its tokens would not be those that the model was trained with.
class AddedVocabulary {
 public:
  explicit AddedVocabulary(std::shared_ptr<const Vocabulary> pieces) : pieces_(std::move(pieces)) {}

  // Adds a token, or changes the flags of the one with this content; an empty token is ignored. `id` is the file's, or
  // none. Throws Error(input) that begins with `file` if the file's id differs from the library's, or if the library's
  // id belongs to a piece.
  void add(AddedToken token, std::optional<std::int32_t> id, const std::string& file);
  bool contains(const std::string& content) const { return newest_.contains(content); }
  // Returns true if add() would change nothing.
  bool has(const AddedToken& token) const;
  // May contain two tokens with one content and different `normalized`: the library looks for both.
  const std::vector<AddedToken>& tokens() const { return tokens_; }

 private:
  std::int32_t id_for(const std::string& content) const;
  bool change_flags(const AddedToken& token);  // for the tokens with its id; returns whether one is special
  [[noreturn]] void fail_id(const AddedToken& token, std::int32_t id, const std::string& file) const;

  std::shared_ptr<const Vocabulary> pieces_;
  std::vector<AddedToken> tokens_;
  std::map<std::string, AddedToken> newest_;  // by content, as last added
  std::int32_t largest_ = -1;                 // the largest id
};

}  // namespace pipetrain
