// The variable "loop" inside of a loop. Internal to data/.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "data/templates/values/object.hpp"

namespace pipetrain::templates {

// It reads one value ahead only if the template asks for the next one, and all values only if it asks for an unknown length.
class LoopState : public Object, public std::enable_shared_from_this<LoopState> {
 public:
  using Again = std::function<Value(const Value& values, int depth)>;
  struct Source {
    std::unique_ptr<Iterator> iterator;
    std::optional<std::int64_t> size;
    Value keeps;  // read by the iterator, which it must outlive
  };
  // `again` runs a recursive loop over other values; empty for other loops.
  LoopState(Source source, int depth, Again again) : source_(std::move(source)), depth_(depth), again_(std::move(again)) {}

  // Returns the next value; nothing at the end.
  std::optional<Value> advance();

  std::string type_name() const override { return "LoopContext"; }
  std::string repr() const override;
  std::optional<std::size_t> size() const override { return 1; }  // true
  std::optional<Value> attribute(std::string_view name) override;
  bool is_callable() const override { return true; }
  Value call(Runtime& runtime, const Arguments& arguments) override;

 private:
  const std::optional<Value>& following();
  std::int64_t length();
  Value cycle(const Arguments& arguments) const;
  bool changed(const Arguments& arguments);

  Source source_;
  int depth_;
  Again again_;
  std::int64_t index0_ = -1;
  std::optional<Value> before_, current_;
  std::optional<std::optional<Value>> after_;  // that was read ahead
  std::optional<Value> last_changed_;
};

}  // namespace pipetrain::templates
