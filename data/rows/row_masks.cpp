#include "data/rows/row_masks.hpp"

#include <fmt/format.h>

#include "data/rows/jsonl_row.hpp"

namespace pipetrain {
namespace {

constexpr const char* mask_names[] = {"attention_mask", "completion_mask", "assistant_masks",    "loss_mask",
                                      "position_ids",   "token_type_ids",  "special_tokens_mask"};

}  // namespace

const char* RowMasks::name_of(Kind kind) { return mask_names[static_cast<std::size_t>(kind)]; }

std::optional<RowMasks::Kind> RowMasks::kind_of(std::string_view key) {
  for (std::size_t kind = 0; kind < kinds; ++kind)
    if (key == mask_names[kind]) return static_cast<Kind>(kind);
  return std::nullopt;
}

void RowMasks::begin(Kind kind) {
  kind_ = kind;
  list(kind).is_given = true;
}

void RowMasks::add(std::int64_t value) {
  List& list = this->list(kind_);
  const bool is_switch = kind_ == Kind::attention || kind_ == Kind::completion || kind_ == Kind::assistant;
  if (is_switch) check_switch(list.size, value);
  const std::int64_t place = list.size++;
  list.ones += value == 1 ? 1 : 0;
  const bool none_is_odd = kind_ == Kind::token_types || kind_ == Kind::special_tokens;
  const std::int64_t usual = kind_ == Kind::positions ? place : none_is_odd ? 0 : 1;
  if (value == usual) return;
  if (list.first_odd < 0) list.first_odd = place, list.odd_value = value;
  if (!is_switch || kind_ == Kind::attention || place >= static_cast<std::int64_t>(places_)) return;
  left_out_.resize(places_, false);
  left_out_[static_cast<std::size_t>(place)] = true;
}

void RowMasks::check_switch(std::int64_t place, std::int64_t value) const {
  if (value != 0 && value != 1) refuse(fmt::format("{}", value));
  const List& list = this->list(kind_);
  if (kind_ == Kind::attention && value == 1 && list.first_odd >= 0)
    throw RowFault{
        fmt::format("attention_mask[{}] is 0 and attention_mask[{}], after it, is 1; only padding at the end of a row is "
                    "left out: leave out what is not to be read, or put it at the end",
                    list.first_odd, place)};
}

void RowMasks::refuse(const std::string& shown) const {
  const bool is_number = kind_ == Kind::positions || kind_ == Kind::token_types;
  throw RowFault{fmt::format("{}[{}] is {}, not {}", name_of(kind_), list(kind_).size, shown,
                             is_number ? "an integer of 64 bits" : "0 or 1")};
}

void RowMasks::refuse_odd(Kind kind, const std::string& why) const {
  const List& list = this->list(kind);
  if (list.first_odd < 0 || list.first_odd >= kept_) return;
  throw RowFault{fmt::format("{}[{}] is {}{}", name_of(kind), list.first_odd, list.odd_value, why)};
}

void RowMasks::finish(std::int64_t ids) {
  for (std::size_t kind = 0; kind < kinds; ++kind)
    if (const List& list = lists_[kind]; list.is_given && list.size != ids)
      throw RowFault{fmt::format("\"{}\" has {} values for {} input_ids; give one for each", mask_names[kind], list.size, ids)};
  kept_ = list(Kind::attention).first_odd >= 0 ? list(Kind::attention).first_odd : ids;
  if (kept_ == 0 && ids > 0) throw RowFault{R"("attention_mask" leaves nothing of this row to read; leave the row out)"};
  refuse_odd(Kind::loss,
             R"(; some programs apply it to the label at this place, others to the next one; leave it out and write "labels" )"
             R"(next to "input_ids", with -100 where nothing is to be learned)");
  refuse_odd(Kind::positions,
             fmt::format(", not {}; ids have the positions in which they are written, so give each document a row of "
                         "its own, and pack them isolated",
                         list(Kind::positions).first_odd));
  refuse_odd(Kind::token_types, "; types of tokens are not read, so leave them out");
  if (list(Kind::special_tokens).ones != ids)
    refuse_odd(Kind::special_tokens,
               R"(; special tokens are learned as the others are, so leave the mask out, or write "labels" with -100 there)");
}

const char* RowMasks::any() const {
  for (std::size_t kind = 0; kind < kinds; ++kind)
    if (lists_[kind].is_given) return mask_names[kind];
  return nullptr;
}

const char* RowMasks::leaves_out() const {
  for (const Kind kind : {Kind::completion, Kind::assistant})
    if (list(kind).first_odd >= 0 && list(kind).first_odd < kept_) return name_of(kind);
  return nullptr;
}

}  // namespace pipetrain
