#include "data/templates/template.hpp"

#include <fmt/format.h>

#include "core/error.hpp"
#include "data/templates/evaluator.hpp"
#include "data/templates/functions/globals.hpp"
#include "data/templates/render_error.hpp"
#include "data/templates/syntax/parser.hpp"
#include "data/tokenizers/text/utf8.hpp"

namespace pipetrain::templates {
namespace {

std::string utf8_of(const std::string& text) {
  std::string buffer;
  return std::string(valid_utf8_or_replaced(text, buffer));
}

ParsedTemplate parsed_template(std::string_view source, const std::string& place) {
  std::string buffer;
  try {
    return parse_template(valid_utf8_or_replaced(source, buffer));
  } catch (const TemplateFault& fault) {
    throw Error(ErrorKind::input, fmt::format("{}:{}: {}; correct the chat template", place, fault.line, fault.why));
  }
}

Value number_of_json(const Json& json) {
  if (json.is_real()) return json.as_double();
  if (json.is_large_integer()) return make_integer(json.digits());
  if (const auto integer = json.whole()) return *integer;
  return make_integer(std::to_string(json.as_uint64()));
}

}  // namespace

Value value_of_json(const Json& json) {
  if (json.is_null()) return {};
  if (json.is_boolean()) return json.as_bool();
  if (json.is_number()) return number_of_json(json);
  if (json.is_string()) return Value(utf8_of(json.as_string()));
  if (json.is_array()) {
    Values values;
    for (const Json& element : json) values.push_back(value_of_json(element));
    return make_list(std::move(values));
  }
  DictItems items;
  for (const auto& [key, value] : json.items(JsonOrder::as_added)) items.set(Value(utf8_of(key)), value_of_json(value));
  return make_dict(std::move(items));
}

Template::Template(std::string_view source, std::string place)
    : place_(std::move(place)), parsed_(std::make_unique<const ParsedTemplate>(parsed_template(source, place_))) {}
Template::~Template() = default;
Template::Template(Template&&) noexcept = default;

Rendering Template::render(const Json& variables, const RenderSettings& settings) const {
  try {
    Variables values;
    for (const auto& [name, value] : variables.items()) values.emplace(name, value_of_json(value));
    Runtime runtime(settings.limits, settings.now);
    return Evaluator(runtime, values).run(parsed_->body);
  } catch (const RaisedByTemplate& fault) {
    throw RenderError(fmt::format("{}:{}: the chat template refuses this: {}", place_, fault.line, fault.why));
  } catch (const TemplateFault& fault) {
    throw RenderError(fmt::format("{}:{}: the chat template cannot render this: {}", place_, fault.line, fault.why));
  }
}

bool Template::names(const std::string& word) const { return parsed_->words.contains(word); }
bool Template::has_generation() const { return parsed_->has_generation; }

}  // namespace pipetrain::templates
