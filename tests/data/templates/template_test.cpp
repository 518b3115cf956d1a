// Chat templates render as jinja2 renders them, within limits.
#include "data/templates/template.hpp"

#include "catch.hpp"
#include "core/error.hpp"
#include "data/templates/fixture.hpp"
#include "data/templates/render_error.hpp"
#include "files/json.hpp"

using namespace pipetrain;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;
using templates::Template;

namespace {

std::string rendered(const std::string& text, const Json& variables = Json::object()) {
  return Template(text, "t.jinja").render(variables).text;
}

std::string template_error(const std::string& text, const Json& variables = Json::object()) {
  try {
    rendered(text, variables);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::input);
    const std::string why = error.what();
    CHECK(why.find('\n') == std::string::npos);
    return why;
  }
  return "no error";
}

}  // namespace

TEST_CASE("forty chat templates render conversations as jinja2 does") {
  const Json& fixture = test::template_fixture();
  for (const auto& [name, text] : fixture.at("templates").items()) {
    const Template compiled(text.as_string(), name);
    const Json& sums = fixture.at("checksums").at(name);
    REQUIRE(sums.size() == fixture.at("conversations").size());
    for (std::size_t i = 0; i < sums.size(); ++i) {
      INFO(name << " with conversation " << i);
      std::string sum = "error";
      try {
        sum = test::fnv_checksum(compiled.render(fixture.at("conversations")[i]).text);
      } catch (const templates::RenderError&) {
      }
      CHECK(sum == sums[i].as_string());
    }
  }
}

TEST_CASE("expressions of a template have the values that Python gives them") {
  const Json variables =
      Json::object({{"s", "It's a \"Test\""}, {"xs", Json::array({3, 1, 2})}, {"d", Json::object({{"items", 1}, {"k", 2.0}})}});
  const std::pair<const char*, const char*> cases[] = {
      {"{{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** 10 }} {{ 2 ** -1 }}", "3 -4 2 3.5 1024 0.5"},
      {"{{ 1e16 }} {{ 1e15 }} {{ 0.0001 }} {{ 0.00001 }} {{ 1.0 }} {{ 1e22 * 10 }}",
       "1e+16 1000000000000000.0 0.0001 1e-05 1.0 1e+23"},
      {"{{ s }} {{ [s] }} {{ ['a'] }} {{ (1,) }} {{ {'a': none} }} {{ true }}",
       "It's a \"Test\" ['It\\'s a \"Test\"'] ['a'] (1,) {'a': None} True"},
      {"{{ xs[::-1] }} {{ xs[-2:] }} {{ 'abc'[1] }} {{ xs|sort }} {{ xs|map('string')|join('+') }}",
       "[2, 1, 3] [1, 2] b [1, 2, 3] 3+1+2"},
      {"{{ d.items is callable }} {{ d['items'] }} {{ d.k }} {{ d.nothing is defined }}", "True 1 2.0 False"},
      {"{{ d|tojson }} {{ d|tojson(indent=1) }}", "{\"items\": 1, \"k\": 2.0} {\n \"items\": 1,\n \"k\": 2.0\n}"},
      {"{{ 'stra\xC3\x9F"
       "e'.upper() }} {{ '\xCE\xA3\xCE\x91\xCE\xA3'.lower() }}",
       "STRASSE \xCF\x83\xCE\xB1\xCF\x82"},
      {"{{ missing }}{{ missing|default('x') }} {{ 1 if false }} {{ 1 < 2 < 3 }} {{ 'a' ~ 1 ~ none }}", "x  True a1None"},
      {"{{ xs.append is defined }}", "False"},
      {"{{ 18446744073709551616 }} {{ -9223372036854775809 }} {{ -9223372036854775808 }} {{ '0099999999999999999999'|int }}",
       "18446744073709551616 -9223372036854775809 -9223372036854775808 99999999999999999999"},
      {"{{ {18446744073709551615: 1}[18446744073709551615.0 - 1] is defined }} {{ {1e22: 1}[10000000000000000000000] }} "
       "{{ 99999999999999999999 is integer }} {{ -99999999999999999999|abs }} {{ 99999999999999999999 / 2.0 }}",
       "False 1 True 99999999999999999999 5e+19"},
      {"{{ 18446744073709551617 == 18446744073709551616.0 }} {{ 18446744073709551616 == 18446744073709551616.0 }} "
       "{{ 9223372036854775807 < 9223372036854775808 }} {{ [1, -99999999999999999999, 99999999999999999999]|sort }}",
       "False True True [-99999999999999999999, 1, 99999999999999999999]"},
      {"{{ 1e22|int }} {{ 18446744073709551616 + 1.0 }} {{ 99999999999999999999|round }} {{ '%s' % 99999999999999999999 }}",
       "10000000000000000000000 1.8446744073709552e+19 99999999999999999999 99999999999999999999"}};
  for (const auto& [text, expected] : cases) CHECK(rendered(text, variables) == expected);
}

TEST_CASE("a template prints integers of any size of a row's JSON as they are") {
  const std::string numbers = "[12345678901234567890123, -18446744073709551616, 18446744073709551615, 1e3]";
  const Json variables = Json::object({{"xs", parse_json(numbers, {"row.jsonl"})}});
  CHECK(rendered("{{ xs|tojson }} {{ xs }}", variables) ==
        "[12345678901234567890123, -18446744073709551616, 18446744073709551615, 1000.0] "
        "[12345678901234567890123, -18446744073709551616, 18446744073709551615, 1000.0]");
}

TEST_CASE("a generator of a filter gives its values once") {
  CHECK(rendered("{% set g = [1, 2]|map('string') %}{{ g|join }}|{{ g|join }}|{{ 'yes' if []|select else 'no' }}") ==
        "12||yes");
}

TEST_CASE("generation blocks say where their text lies") {
  const auto rendering =
      Template("a{% generation %}b{{ 1 }}{% endgeneration %}c{% generation %}d{% endgeneration %}", "t").render(Json::object());
  CHECK(rendering.text == "ab1cd");
  REQUIRE(rendering.generations.size() == 2);
  CHECK((rendering.generations[0].begin == 1 && rendering.generations[0].end == 3));
  CHECK((rendering.generations[1].begin == 4 && rendering.generations[1].end == 5));
  CHECK(Template("{% set x %}{% generation %}b{% endgeneration %}{% endset %}{{ x }}", "t")
            .render(Json::object())
            .has_hidden_generation);
}

TEST_CASE("errors of a template name its file, its line and the reason") {
  const std::pair<const char*, const char*> cases[] = {
      {"a\n{{ 1 + }}", "t.jinja:2: an expression is expected"},
      {"\n\n{% for x in y %}", "t.jinja:3: the template ends where 'endfor' is expected"},
      {"{% include 'other' %}", "t.jinja:1: the tag 'include' is not supported"},
      {"{% unknown %}", "t.jinja:1: the tag 'unknown' is unknown"},
      {"{% endif %}", "t.jinja:1: the tag 'endif' is unknown, or closes nothing that is open"},
      {"{{ 'a", "t.jinja:1: a string does not end"},
      {"{# a", "t.jinja:1: a comment does not end"},
      {"a\n\n{{ missing.x }}", "t.jinja:3: the chat template cannot render this: 'missing' is undefined"},
      {"{{ 'a' + 1 }}", "can only concatenate str"},
      {"\n{{ raise_exception('no\nmore') }}", "t.jinja:2: the chat template refuses this: no\\nmore"},
      {"{{ [].append(1) }}", "access to attribute 'append' of 'list' object is unsafe"},
      {"{{ 1 | nothing }}", "there is no filter 'nothing'"},
      {"{{ 1 is nothing }}", "there is no test 'nothing'"},
      {"{{ ''.__class__.x }}", "has no attribute '__class__'"},
      {"{{ range(100001) }}", "MAX_RANGE"},
      {"{{ 9223372036854775807 + 1 }}", "an integer is too large"},
      {"{{ 99999999999999999999 - 1 }}", "an integer is too large"},
      {"{% break %}", "t.jinja:1: 'break' is outside of a loop"}};
  for (const auto& [text, expected] : cases) {
    INFO(text);
    CHECK_THAT(template_error(text), Contains(expected));
  }
}

TEST_CASE("a template that runs or grows without end is refused") {
  const std::string ten = "{% set r = range(100000) %}";
  CHECK_THAT(template_error(ten + "{% for a in r %}{% for b in r %}{% endfor %}{% endfor %}"), Contains("steps"));
  CHECK_THAT(
      template_error("{% set ns = namespace(x='aaaaaaaa') %}{% for a in range(64) %}{% set ns.x = ns.x + ns.x %}{% endfor %}"),
      Contains("MiB"));
  CHECK_THAT(template_error("{{ 'a' * 10000000000 }}"), Contains("MiB"));
  CHECK_THAT(template_error("{{ [[]] * 10000000000 }}"), Contains("MiB"));
  CHECK_THAT(template_error("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"), Contains("too deep"));
  CHECK_THAT(
      template_error("{% set ns = namespace(x=[]) %}{% for a in range(1000) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}"),
      Contains("a value holds more than"));
  CHECK_THAT(template_error("{{ " + std::string(100000, '(') + "1" + std::string(100000, ')') + " }}"), Contains("too deep"));
  CHECK_THAT(template_error("{{ 1" + std::string(100000, '+') + "1 }}"), Contains("too deep"));
  std::string sum = "{{ 1";
  for (int i = 0; i < 100000; ++i) sum += "+1";
  CHECK_THAT(template_error(sum + " }}"), Contains("deep"));
  std::string blocks;
  for (int i = 0; i < 100000; ++i) blocks += "{% if 1 %}";
  CHECK_THAT(template_error(blocks), Contains("deep"));
  CHECK(rendered("{% set ns = namespace() %}{% set ns.own = ns %}{{ ns }}") == "<Namespace {'own': <Namespace {...}>}>");
}
