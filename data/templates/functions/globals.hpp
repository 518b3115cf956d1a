// The functions that every chat template may call, of Jinja and of transformers. Internal to data/.
#pragma once

#include <map>
#include <string>

#include "data/templates/values/object.hpp"

namespace pipetrain::templates {

// Returns range, dict, namespace, cycler, joiner, raise_exception and strftime_now.
const std::map<std::string, Value, std::less<>>& template_globals();

// raise_exception(): the template refuses what it is given.
struct RaisedByTemplate : TemplateFault {};

}  // namespace pipetrain::templates
