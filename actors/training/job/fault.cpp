#include "actors/training/job/fault.hpp"

#include <fmt/format.h>

#include <map>
#include <string_view>

#include "core/error.hpp"
#include "core/parsing.hpp"

namespace pipetrain {
namespace {

const std::map<std::string_view, FaultKind> fault_kinds = {
    {"throw", FaultKind::raise},       {"exit", FaultKind::exit}, {"exit-in-update", FaultKind::exit_in_update},
    {"stop", FaultKind::stop},         {"hang", FaultKind::hang}, {"nan", FaultKind::nan},
    {"oom", FaultKind::out_of_memory}, {"skip", FaultKind::skip}, {"slow", FaultKind::slow}};

template <class Number>
bool read_number(std::string_view text, Number least, Number& number) {
  const auto found = number_from<Number>(text);
  if (found) number = *found;
  return found && number >= least;
}

}  // namespace

Fault parse_fault(const std::string& text) {
  Fault fault;
  const std::string_view view = text;
  const auto first = view.find(':'), second = view.find(':', first == view.npos ? first : first + 1);
  if (second != view.npos && read_number(view.substr(0, first), 0, fault.rank) &&
      read_number<std::int64_t>(view.substr(first + 1, second - first - 1), 1, fault.step)) {
    const auto kind = fault_kinds.find(view.substr(second + 1));
    if (kind != fault_kinds.end()) {
      fault.kind = kind->second;
      return fault;
    }
  }
  throw Error(
      ErrorKind::input,
      fmt::format(
          "PIPETRAIN_FAULT={}: write rank:step:kind with kind throw, exit, exit-in-update, stop, hang, nan, oom, skip or slow, as in 0:3:throw",
          text));
}

}  // namespace pipetrain
