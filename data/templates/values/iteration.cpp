#include "data/templates/values/iteration.hpp"

#include <fmt/format.h>

#include "data/templates/values/characters.hpp"

namespace pipetrain::templates {
namespace {

class FunctionIterator : public Iterator {
 public:
  explicit FunctionIterator(std::function<std::optional<Value>()> next) : next_(std::move(next)) {}
  std::optional<Value> next() override { return next_(); }

 private:
  std::function<std::optional<Value>()> next_;
};

std::unique_ptr<Iterator> characters_of(const Text& text) {
  return iterator_of([text, at = std::size_t{0}]() mutable -> std::optional<Value> {
    const std::string& bytes = text.string();
    if (at >= bytes.size()) return std::nullopt;
    const std::size_t size = character_size(bytes, at);
    at += size;
    return Value(bytes.substr(at - size, size));
  });
}

// `Container` shares the elements, so that they outlive the iterator.
template <class Container>
std::unique_ptr<Iterator> elements_of(const Container& container) {
  return iterator_of([container, at = std::size_t{0}]() mutable -> std::optional<Value> {
    if (at >= container.values().size()) return std::nullopt;
    return container.values()[at++];
  });
}

std::unique_ptr<Iterator> keys_of(const Dict& dict) {
  return iterator_of([dict, at = std::size_t{0}]() mutable -> std::optional<Value> {
    if (at >= dict.items->size()) return std::nullopt;
    return dict.items->items()[at++].first;
  });
}

std::unique_ptr<Iterator> numbers_of(const Range& range) {
  return iterator_of([range, at = std::int64_t{0}]() mutable -> std::optional<Value> {
    if (at >= range.size()) return std::nullopt;
    return Value(range.at(at++));
  });
}

}  // namespace

std::unique_ptr<Iterator> iterator_of(std::function<std::optional<Value>()> next) {
  return std::make_unique<FunctionIterator>(std::move(next));
}

std::unique_ptr<Iterator> iterator_over(Values values) { return elements_of(*make_list(std::move(values)).as<List>()); }

std::unique_ptr<Iterator> try_iterate(const Value& value) {
  if (const List* const list = value.as<List>()) return elements_of(*list);
  if (const Tuple* const tuple = value.as<Tuple>()) return elements_of(*tuple);
  if (const Text* const text = value.as<Text>()) return characters_of(*text);
  if (const Dict* const dict = value.as<Dict>()) return keys_of(*dict);
  if (const Range* const range = value.as<Range>()) return numbers_of(*range);
  if (value.is<Undefined>()) return iterator_over({});
  return value.object() != nullptr ? value.object()->iterate() : nullptr;
}

std::unique_ptr<Iterator> iterate(const Value& value) {
  auto iterator = try_iterate(value);
  if (!iterator) fail(fmt::format("'{}' object is not iterable", type_name(value)));
  return iterator;
}

Values values_of(Runtime& runtime, const Value& value) {
  Values values;
  const auto iterator = iterate(value);
  while (auto one = iterator->next()) {
    runtime.charge_values(1);
    values.push_back(std::move(*one));
  }
  return values;
}

std::optional<std::int64_t> length_of(const Value& value) {
  if (const std::string* const text = value.text()) return static_cast<std::int64_t>(count_characters(*text));
  if (const Values* const elements = value.elements()) return std::ssize(*elements);
  if (const DictItems* const dict = value.dict()) return static_cast<std::int64_t>(dict->size());
  if (const Range* const range = value.as<Range>()) return range->size();
  if (value.is<Undefined>()) return 0;
  const auto size = value.object() != nullptr ? value.object()->size() : std::nullopt;
  return size ? std::optional(static_cast<std::int64_t>(*size)) : std::nullopt;
}

}  // namespace pipetrain::templates
