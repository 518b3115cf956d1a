// BoundArguments gives the arguments of a call by the parameters of a function of Python. Internal to data/.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/templates/values/object.hpp"

namespace pipetrain::templates {

class BoundArguments {
 public:
  // The first `required` of the parameters have no default. Throws TemplateFault, which names the function, for arguments that
  // are missing or too many.
  BoundArguments(std::string_view function, const Arguments& arguments, std::initializer_list<const char*> parameters,
                 std::size_t required = 0);

  // Returns null if it was not given.
  const Value* find(std::size_t index) const { return values_[index] ? &*values_[index] : nullptr; }
  // Returns null also if it is None.
  const Value* find_some(std::size_t index) const;
  const Value& at(std::size_t index) const { return *values_[index]; }
  bool truth(std::size_t index, bool otherwise) const;
  // These throw TemplateFault for another type.
  std::int64_t integer(std::size_t index, std::int64_t otherwise) const;
  const std::string& text(std::size_t index) const;
  std::string text_or(std::size_t index, const std::string& otherwise) const;

 private:
  [[noreturn]] void fail_type(std::size_t index, const char* wanted) const;

  std::string function_;
  std::vector<const char*> names_;
  std::vector<std::optional<Value>> values_;
};

}  // namespace pipetrain::templates
