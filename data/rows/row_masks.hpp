// The lists of a row that say which of its input_ids count, or at which positions they are. Internal to data/.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pipetrain {

// Takes the lists' values while a row is parsed. It supports padding at the end, and labels that are left out. Other
// masks throw RowFault, unless they state what holds without them.
class RowMasks {
 public:
  enum class Kind {
    attention,       // 1, then 0 for padding
    completion,      // 0 for a label that does not count
    assistant,       // as completion
    loss,            // as completion, but trainers disagree about its offset
    positions,       // 0, 1, 2, ...
    token_types,     // 0
    special_tokens,  // 1 for a special one
  };
  static std::optional<Kind> kind_of(std::string_view key);

  // `places`: take_left_out() covers this many ids, the first of the row.
  explicit RowMasks(std::size_t places) : places_(places) {}

  void begin(Kind kind);
  void add(std::int64_t value);
  [[noreturn]] void refuse(const std::string& shown) const;  // for a next value of the wrong kind

  // Call it once all lists of a row with this many ids have been read.
  void finish(std::int64_t ids);
  std::int64_t kept() const { return kept_; }  // ids before the padding
  // Returns the name of a list that the row has, or null.
  const char* any() const;
  // Returns the name of a list that leaves labels out, or null.
  const char* leaves_out() const;
  // Returns for each of the first ids whether its label is left out; empty if none is.
  std::vector<bool> take_left_out() { return std::move(left_out_); }

 private:
  static constexpr std::size_t kinds = 7;
  static const char* name_of(Kind kind);
  struct List {
    bool is_given = false;
    std::int64_t size = 0, ones = 0;
    std::int64_t first_odd = -1;  // the first index at which the mask differs from the default
    std::int64_t odd_value = 0;
  };
  List& list(Kind kind) { return lists_[static_cast<std::size_t>(kind)]; }
  const List& list(Kind kind) const { return lists_[static_cast<std::size_t>(kind)]; }
  void check_switch(std::int64_t place, std::int64_t value) const;
  void refuse_odd(Kind kind, const std::string& why) const;

  std::size_t places_;
  Kind kind_ = Kind::attention;  // of the list that is being read
  std::array<List, kinds> lists_{};
  std::vector<bool> left_out_;
  std::int64_t kept_ = 0;
};

}  // namespace pipetrain
