// The parts into which pre-tokenizers split a text. Internal to data/.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

namespace pipetrain {

// Texts that keep their addresses until clear(). Not thread-safe.
class TextArena {
 public:
  // Write from begin(most) on, at most that many bytes; take(size) then keeps the first `size` of them.
  char* begin(std::size_t most);
  std::string_view take(std::size_t size);
  void clear();

 private:
  std::vector<std::vector<char>> blocks_;
  std::size_t used_ = 0;  // bytes of the last block
};

// A text as pieces, in order, none empty. Pieces point into the text that they were cut from or into the arena. Not
// thread-safe.
class Pieces {
 public:
  // `at_start`: no text precedes this one in the input to be tokenized.
  void reset(std::string_view text, bool at_start);
  const std::vector<std::string_view>& list() const { return pieces_; }
  TextArena& arena() { return arena_; }

  // Calls split(piece, is_first, put) for each piece and replaces it by the parts given to put(part). is_first: the
  // piece is the start of the text; never true if the start was dropped.
  template <class Split>
  void replace_each(const Split& split) {
    next_.clear();
    const char* start = start_;
    for (const std::string_view piece : pieces_) {
      const bool first = at_start_ && piece.data() == start_;
      bool any = false;
      split(piece, first, [&](std::string_view part) {
        if (part.empty()) return;
        const bool moved = part.data() < piece.data() || part.data() >= piece.data() + piece.size();  // into the arena
        if (first && !std::exchange(any, true) && moved) start = part.data();
        next_.push_back(part);
      });
    }
    start_ = start;
    pieces_.swap(next_);
  }

 private:
  std::vector<std::string_view> pieces_, next_;
  TextArena arena_;
  const char* start_ = nullptr;  // of the text, or of its replacement
  bool at_start_ = true;
};

// Splits pieces further, or changes their text. Immutable and thread-safe.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  virtual void apply(Pieces& pieces) const = 0;
};

}  // namespace pipetrain
