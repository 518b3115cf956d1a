// Renders chat templates for compare.py and fuzz_expressions.py: a line of JSON {"template", "variables"} for each text, and a
// line {"text"} or {"error"} as the answer.
#include <iostream>
#include <map>
#include <memory>
#include <string>

#include "core/error.hpp"
#include "data/templates/template.hpp"
#include "files/json.hpp"

namespace {

using pipetrain::Json;
using pipetrain::templates::Template;

Json answer(const std::string& line, std::map<std::string, std::unique_ptr<Template>>& compiled) {
  try {
    const Json row =
        pipetrain::parse_json(line, {"stdin", false}, {.depth = 900, .values = 0, .token_bytes = std::size_t{64} << 20});
    auto& one = compiled[row.at("template").as_string()];
    if (!one) one = std::make_unique<Template>(row.at("template").as_string(), "template");
    return Json::object({{"text", one->render(row.at("variables")).text}});
  } catch (const pipetrain::Error& error) {
    return Json::object({{"error", error.what()}});
  }
}

}  // namespace

int main() {
  std::map<std::string, std::unique_ptr<Template>> compiled;
  for (std::string line; std::getline(std::cin, line);) std::cout << answer(line, compiled).dump({.ascii = true}) << std::endl;
}
