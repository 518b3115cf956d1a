#include "data/templates/values/object.hpp"

#include <fmt/format.h>

#include "data/templates/values/iteration.hpp"
#include "data/templates/values/printing.hpp"

namespace pipetrain::templates {

Value Object::call(Runtime&, const Arguments&) { fail(fmt::format("'{}' object is not callable", type_name())); }

Function::Function(std::string name, Call call, int depth) : name_(std::move(name)), call_(std::move(call)), depth_(depth) {
  if (depth > deepest_value) fail("values are nested too deep");
}

std::string Function::repr() const { return fmt::format("<built-in method {}>", name_); }

Generator::Generator(Next next, int depth) : state_(std::make_shared<State>(State{std::move(next)})), depth_(depth) {
  if (depth > deepest_value) fail("generators are nested too deep");
}

std::unique_ptr<Iterator> Generator::iterate() {
  return iterator_of([state = state_]() -> std::optional<Value> {
    if (state->is_at_end) return std::nullopt;
    auto value = state->next();
    state->is_at_end = !value;
    return value;
  });
}

std::string DictView::type_name() const {
  return kind_ == Kind::keys ? "dict_keys" : kind_ == Kind::values ? "dict_values" : "dict_items";
}

std::string DictView::repr() const { return fmt::format("{}({})", type_name(), templates::repr(make_list(values()))); }

Values DictView::values() const {
  Values values;
  for (const auto& [key, value] : dict_.items->items())
    values.push_back(kind_ == Kind::keys ? key : kind_ == Kind::values ? value : make_tuple({key, value}));
  return values;
}

std::unique_ptr<Iterator> DictView::iterate() { return iterator_over(values()); }

std::string Namespace::repr() const {
  if (is_shown_) return "<Namespace {...}>";
  is_shown_ = true;
  const std::string shown = fmt::format("<Namespace {}>", templates::repr(make_dict(attributes_)));
  is_shown_ = false;
  return shown;
}

std::optional<Value> Namespace::attribute(std::string_view name) {
  const Value* const found = attributes_.find(name);
  return found == nullptr ? std::nullopt : std::optional(*found);
}

void Namespace::set(const std::string& name, const Value& value) { attributes_.set(Value(name), value); }

}  // namespace pipetrain::templates
