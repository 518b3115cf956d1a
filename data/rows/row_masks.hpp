// The lists of a row that say which of its input_ids count, or how they are placed. Internal to data/.
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

// Takes their values while a row is parsed. What can be honoured is: padding at the end, and labels that are left out. What
// cannot throws RowFault, unless it says what is so without it.
class RowMasks {
 public:
  enum class Kind {
    attention,       // 1, and behind it 0 for padding
    completion,      // 0 for a label that does not count
    assistant,       // likewise
    loss,            // likewise, but trainers disagree about its place
    positions,       // 0, 1, 2, ...
    token_types,     // 0
    special_tokens,  // 1 for a special one
  };
  static std::optional<Kind> kind_of(std::string_view key);

  // `places`: take_left_out() covers so many ids, the first of the row.
  explicit RowMasks(std::size_t places) : places_(places) {}

  void begin(Kind kind);
  void add(std::int64_t value);
  [[noreturn]] void refuse(const std::string& shown) const;  // the next value, which is of the wrong kind

  // Of a row with so many ids, all of its lists read.
  void finish(std::int64_t ids);
  std::int64_t kept() const { return kept_; }  // ids in front of the padding
  // The name of a list that is there, or null.
  const char* any() const;
  // The name of a list by which labels are left out, or null.
  const char* leaves_out() const;
  // Of the first ids, whether their labels do not count; or nothing, where all do.
  std::vector<bool> take_left_out() { return std::move(left_out_); }

 private:
  static constexpr std::size_t kinds = 7;
  static const char* name_of(Kind kind);
  struct List {
    bool is_given = false;
    std::int64_t size = 0, ones = 0;
    std::int64_t first_odd = -1;  // the first place at which it says more than if it were not there
    std::int64_t odd_value = 0;
  };
  List& list(Kind kind) { return lists_[static_cast<std::size_t>(kind)]; }
  const List& list(Kind kind) const { return lists_[static_cast<std::size_t>(kind)]; }
  void check_switch(std::int64_t place, std::int64_t value) const;
  void refuse_odd(Kind kind, const std::string& why) const;

  std::size_t places_;
  Kind kind_ = Kind::attention;  // that is being read
  std::array<List, kinds> lists_{};
  std::vector<bool> left_out_;
  std::int64_t kept_ = 0;
};

}  // namespace pipetrain
