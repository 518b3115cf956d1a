#include "data/templates/functions/globals.hpp"

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <ctime>

#include "data/templates/functions/call_arguments.hpp"
#include "data/templates/values/iteration.hpp"
#include "data/templates/values/printing.hpp"

namespace pipetrain::templates {
namespace {

constexpr std::int64_t longest_range = 100'000;

Value make_range(Runtime&, const Arguments& arguments) {
  const auto& given = arguments.positional;
  if (!arguments.named.empty() || given.empty() || given.size() > 3) fail("range() takes 1 to 3 arguments without names");
  std::array<std::int64_t, 3> numbers{0, 0, 1};
  for (std::size_t i = 0; i < given.size(); ++i) {
    const auto integer = given[i].integer();
    if (!integer) fail(fmt::format("'{}' object cannot be interpreted as an integer", type_name(given[i])));
    numbers[given.size() == 1 ? 1 : i] = *integer;
  }
  constexpr std::int64_t most = std::int64_t{1} << 60;
  for (const std::int64_t number : numbers)
    if (number > most || number < -most) fail("an integer is too large");
  if (numbers[2] == 0) fail("range() arg 3 must not be zero");
  const Range range{numbers[0], numbers[1], numbers[2]};
  if (range.size() > longest_range)
    fail(fmt::format("Range too big. The sandbox blocks ranges larger than MAX_RANGE ({}).", longest_range));
  return range;
}

void add_items(Runtime& runtime, const Value& source, DictItems& items) {
  if (const DictItems* const dict = source.dict()) {
    for (const auto& [key, value] : dict->items()) items.set(key, value);
    runtime.charge_values(2 * dict->size());
    return;
  }
  for (const Value& pair : values_of(runtime, source)) {
    const Values both = values_of(runtime, pair);
    if (both.size() != 2) fail("dict() takes pairs of a key and a value");
    items.set(both[0], both[1]);
  }
}

DictItems items_of_call(Runtime& runtime, const Arguments& arguments) {
  DictItems items;
  if (arguments.positional.size() > 1) fail("dict() takes at most one argument without a name");
  if (!arguments.positional.empty()) add_items(runtime, arguments.positional[0], items);
  for (const auto& [name, value] : arguments.named) items.set(Value(name), value);
  runtime.charge_values(2 * items.size());
  return items;
}

Value make_dict_of_call(Runtime& runtime, const Arguments& arguments) { return make_dict(items_of_call(runtime, arguments)); }

Value make_namespace(Runtime& runtime, const Arguments& arguments) {
  const auto made = runtime.make_namespace();
  const DictItems items = items_of_call(runtime, arguments);
  for (const auto& [key, value] : items.items()) {
    if (key.text() == nullptr) fail("the attributes of a namespace have names that are str");
    made->set(*key.text(), value);
  }
  return ObjectPointer(made);
}

// The object of cycler(a, b), whose next() gives a, b, a, b and so on.
class Cycler : public Object {
 public:
  explicit Cycler(Values values) : values_(make_tuple(std::move(values))) {}
  std::string type_name() const override { return "Cycler"; }
  std::string repr() const override { return "<Cycler>"; }
  int depth() const override { return values_.depth() + 1; }
  std::optional<Value> attribute(std::string_view name) override {
    if (name == "current") return (*values_.elements())[*at_];
    if (name == "items") return values_;
    if (name == "pos") return Value(static_cast<std::int64_t>(*at_));
    if (name != "next" && name != "reset") return std::nullopt;
    const bool is_next = name == "next";
    return ObjectPointer(std::make_shared<Function>(
        std::string(name),
        [at = at_, is_next, values = values_](Runtime&, const Arguments&) {
          const Value value = (*values.elements())[*at];
          *at = is_next ? (*at + 1) % values.elements()->size() : 0;
          return is_next ? value : Value();
        },
        depth()));
  }

 private:
  Value values_;
  std::shared_ptr<std::size_t> at_ = std::make_shared<std::size_t>(0);  // its methods may outlive it
};

Value make_cycler(Runtime&, const Arguments& arguments) {
  if (arguments.positional.empty()) fail("at least one item has to be provided");
  return ObjectPointer(std::make_shared<Cycler>(arguments.positional));
}

// Makes joiner(text), which gives an empty text at its first call and then the text.
Value make_joiner(Runtime&, const Arguments& arguments) {
  const BoundArguments bound("joiner", arguments, {"sep"});
  const auto call = [text = bound.text_or(0, ", "), is_used = false](Runtime&, const Arguments&) mutable {
    return Value(std::exchange(is_used, true) ? text : "");
  };
  return ObjectPointer(std::make_shared<Function>("joiner", call));
}

Value raise_exception(Runtime&, const Arguments& arguments) {
  const BoundArguments bound("raise_exception", arguments, {"message"}, 1);
  RaisedByTemplate fault;
  fault.why = printed(bound.at(0));
  throw fault;
}

Value strftime_now(Runtime& runtime, const Arguments& arguments) {
  const BoundArguments bound("strftime_now", arguments, {"format"}, 1);
  const std::string& format = bound.text(0);
  if (format.empty()) return Value("");
  const std::time_t now = std::chrono::system_clock::to_time_t(runtime.now());
  std::tm parts{};
  localtime_r(&now, &parts);
  std::string text(format.size() * 64 + 256, '\0');
  runtime.charge_bytes(text.size());
  text.resize(std::strftime(text.data(), text.size(), format.c_str(), &parts));
  return Value(std::move(text));
}

Value refuse_lipsum(Runtime&, const Arguments&) { fail("lipsum() gives other text each time, which is not supported"); }

Value function(const char* name, Function::Call call) {
  return ObjectPointer(std::make_shared<Function>(name, std::move(call)));
}

}  // namespace

const std::map<std::string, Value, std::less<>>& template_globals() {
  static const std::map<std::string, Value, std::less<>> globals = {
      {"range", function("range", make_range)},
      {"dict", function("dict", make_dict_of_call)},
      {"namespace", function("namespace", make_namespace)},
      {"cycler", function("cycler", make_cycler)},
      {"joiner", function("joiner", make_joiner)},
      {"lipsum", function("lipsum", refuse_lipsum)},
      {"raise_exception", function("raise_exception", raise_exception)},
      {"strftime_now", function("strftime_now", strftime_now)}};
  return globals;
}

}  // namespace pipetrain::templates
