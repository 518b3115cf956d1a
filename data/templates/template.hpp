// Template is a chat template in Jinja: text with expressions and statements, as tokenizers of models have it.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include "data/templates/rendering.hpp"
#include "data/templates/values/runtime.hpp"
#include "files/json_value.hpp"

namespace pipetrain::templates {

struct ParsedTemplate;

struct RenderSettings {
  RenderLimits limits;
  std::chrono::system_clock::time_point now = std::chrono::system_clock::now();  // of strftime_now()
};

// Semantics: jinja2's ImmutableSandboxedEnvironment with trim_blocks, lstrip_blocks and loop controls, and the filter tojson,
// the functions raise_exception and strftime_now and the tag generation of transformers. It reads no files: tags that name
// other templates are refused. Integers beyond 64 bits can be printed and compared, but not be computed with. Immutable; all
// methods are thread-safe.
class Template {
 public:
  // `place` begins errors: the file's name. Bytes that are not UTF-8 count as U+FFFD. Throws Error(input) with the line.
  Template(std::string_view source, std::string place);
  ~Template();
  Template(Template&&) noexcept;
  Template& operator=(Template&&) = delete;

  // `variables` is an object; its members are the template's variables. Throws RenderError with the line.
  Rendering render(const Json& variables, const RenderSettings& settings = {}) const;
  // Returns true if an expression contains this word as a name, an attribute or a string.
  bool names(const std::string& word) const;
  bool has_generation() const;

 private:
  std::string place_;
  std::unique_ptr<const ParsedTemplate> parsed_;
};

// Members keep their order. Throws TemplateFault where values nest too deeply.
Value value_of_json(const Json& json);

}  // namespace pipetrain::templates
