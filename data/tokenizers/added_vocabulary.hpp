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

// A token keeps the id that its content has already, as an added token or as a piece of the model; another one gets the next id
// behind the model's pieces and the added tokens before it. The library takes no notice of the ids that files give, so that a
// file with other ids is refused: its tokens would not be those that the model was trained with.
class AddedVocabulary {
 public:
  explicit AddedVocabulary(std::shared_ptr<const Vocabulary> pieces) : pieces_(std::move(pieces)) {}

  // Adds a token, or gives the one of this content other flags; an empty one is passed over. `id` is the file's, or none.
  // Throws Error(input) that begins with `file` where the file's id is not the library's, or the library's is that of a piece.
  void add(AddedToken token, std::optional<std::int32_t> id, const std::string& file);
  bool contains(const std::string& content) const { return newest_.contains(content); }
  // Whether add() would change nothing.
  bool has(const AddedToken& token) const;
  // Of one content there may be two with different `normalized`: the library looks for both.
  const std::vector<AddedToken>& tokens() const { return tokens_; }

 private:
  std::int32_t id_for(const std::string& content) const;
  bool change_flags(const AddedToken& token);  // of the tokens with its id; returns whether one is special
  [[noreturn]] void fail_id(const AddedToken& token, std::int32_t id, const std::string& file) const;

  std::shared_ptr<const Vocabulary> pieces_;
  std::vector<AddedToken> tokens_;
  std::map<std::string, AddedToken> newest_;  // by content, as it was added last
  std::int32_t largest_ = -1;                 // of the ids
};

}  // namespace pipetrain
