#include "data/templates/loop_state.hpp"

#include <fmt/format.h>

#include "data/templates/values/iteration.hpp"

namespace pipetrain::templates {

std::optional<Value> LoopState::advance() {
  auto value = after_ ? std::move(*after_) : source_.iterator->next();
  after_.reset();
  if (!value) return value;
  ++index0_;
  before_ = std::move(current_);
  current_ = value;
  return value;
}

const std::optional<Value>& LoopState::following() {
  if (!after_) after_ = source_.iterator->next();
  return *after_;
}

std::int64_t LoopState::length() {
  if (source_.size) return *source_.size;
  Values rest;
  while (auto value = source_.iterator->next()) rest.push_back(std::move(*value));
  const bool has_after = after_ && *after_;
  source_.size = std::ssize(rest) + index0_ + 1 + (has_after ? 1 : 0);
  source_.iterator = iterator_over(std::move(rest));
  return *source_.size;
}

std::string LoopState::repr() const { return fmt::format("<LoopContext {}/...>", index0_ + 1); }

std::optional<Value> LoopState::attribute(std::string_view name) {
  if (name == "index") return Value(index0_ + 1);
  if (name == "index0") return Value(index0_);
  if (name == "revindex") return Value(length() - index0_);
  if (name == "revindex0") return Value(length() - index0_ - 1);
  if (name == "length") return Value(length());
  if (name == "first") return Value(index0_ == 0);
  if (name == "last") return Value(!following().has_value());
  if (name == "depth") return Value(depth_ + 1);
  if (name == "depth0") return Value(depth_);
  if (name == "previtem") return before_ ? *before_ : make_undefined("there is no previous item");
  if (name == "nextitem") return following() ? *following() : make_undefined("there is no next item");
  if (name != "cycle" && name != "changed") return std::nullopt;
  const auto call = [state = shared_from_this(), is_cycle = name == "cycle"](Runtime&, const Arguments& arguments) {
    return is_cycle ? state->cycle(arguments) : Value(state->changed(arguments));
  };
  return ObjectPointer(std::make_shared<Function>(std::string(name), call));
}

Value LoopState::cycle(const Arguments& arguments) const {
  if (arguments.positional.empty()) fail("no items for cycling given");
  return arguments.positional[static_cast<std::size_t>(index0_) % arguments.positional.size()];
}

bool LoopState::changed(const Arguments& arguments) {
  Value value = make_tuple(arguments.positional);
  if (last_changed_ && equal(*last_changed_, value)) return false;
  last_changed_ = std::move(value);
  return true;
}

Value LoopState::call(Runtime&, const Arguments& arguments) {
  if (!again_) fail("The loop must have the 'recursive' marker to be called recursively.");
  if (arguments.positional.size() != 1 || !arguments.named.empty()) fail("loop() takes the values to go through");
  return again_(arguments.positional[0], depth_ + 1);
}

}  // namespace pipetrain::templates
