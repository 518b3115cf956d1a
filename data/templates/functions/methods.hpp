// The methods of str, list, tuple, dict and range that templates may call. Internal to data/.
#pragma once

#include <string_view>

#include "data/templates/values/object.hpp"

namespace pipetrain::templates {

using Method = Value (*)(Runtime&, const Value& self, const Arguments& arguments);

// These return null if there is no such method.
Method find_text_method(std::string_view name);
Method find_dict_method(std::string_view name);
Method find_sequence_method(std::string_view name);

}  // namespace pipetrain::templates
