#include "bench/fuzz/target.hpp"
#include "data/templates/template.hpp"
#include "files/json_value.hpp"

namespace pipetrain::fuzz {
namespace {

const std::vector<std::string> template_words = {"{%",
                                                 "-%}",
                                                 "{{",
                                                 "}}",
                                                 "{#",
                                                 "#}",
                                                 "'",
                                                 "\\n",
                                                 "['role']",
                                                 " + ",
                                                 "\n",
                                                 " if ",
                                                 " else ",
                                                 " for ",
                                                 " in ",
                                                 "{% endif %}",
                                                 "{% endfor %}",
                                                 "{% set x = ",
                                                 "namespace(",
                                                 "loop.",
                                                 "|tojson",
                                                 "|map(",
                                                 "|join",
                                                 ".split(",
                                                 "[::-1]",
                                                 " is defined",
                                                 "{% macro f(a) %}",
                                                 "{% endmacro %}",
                                                 "{% generation %}",
                                                 "{% endgeneration %}",
                                                 "range(",
                                                 "**",
                                                 "//",
                                                 " % "};

const std::vector<std::string> template_seeds = {
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content']}}{% endfor %}",
    "{#- a -#}\n  {%- if a %}\n{{ \"b\" }}\n  {%+ endif -%}\n{% raw %}{{{% endraw %}",
    "{% set ns = namespace(n=0) %}{% for m in messages[::-1] if m.role != 'tool' %}{% set ns.n = ns.n + loop.index0 * 2 // 3 "
    "%}"
    "{{ loop.last }}{% if m.tool_calls is defined %}{% for c in m.tool_calls %}{{ c.function.arguments|tojson(indent=2) }}{% "
    "endfor %}"
    "{% elif loop.first %}{% continue %}{% else %}{% generation %}{{ m.content.split('a', 1)|join('-')|title }}{% "
    "endgeneration %}"
    "{% endif %}{% endfor %}{{ ns.n }}{{ messages|map(attribute='role')|unique|list }}",
    "{% macro f(a, b='x') %}{{ a|upper }}{{ b[1:3:-1] }}{{ caller() if caller }}{% endmacro %}{{ f(1.5) }}{% call f('%s' % "
    "tools) %}c{% endcall %}"
    "{% filter indent(2, true) %}a\nb{% endfilter %}{% set t %}{{ range(3)|sum ** 2 }}{% endset %}{{ t ~ (1 if t else 2) }}",
    "{%- if tools %}{{- '<|im_start|>system\n' }}{%- for tool in tools %}{{- \"\n\" }}{{- tool | tojson }}{%- endfor %}{%- endif "
    "%}"
    "{%- set ns = namespace(multi_step=true, last_query=messages|length - 1) %}{%- for message in messages[::-1] %}"
    "{%- if ns.multi_step and message.role == 'user' and not(message.content.startswith('<r>') and message.content.endswith('</r>'))"
    " %}{%- set ns.multi_step = false %}{%- endif %}{%- endfor %}{{ enable_thinking is defined and enable_thinking is false }}",
    "{%- for message in messages %}{%- set content = message.content %}{%- if '</think>' in content %}"
    "{%- set content = content.split('</think>')[-1].lstrip('\n') %}{%- endif %}{{- content | trim }}{%- endfor %}",
    "{{ bos_token }}{%- if messages[0]['role'] == 'system' -%}{%- if messages[0]['content'] is string -%}"
    "{%- set first = messages[0]['content'] + '\n\n' -%}{%- else -%}{%- set first = messages[0]['content'][0]['text'] -%}{%- "
    "endif -%}"
    "{%- set loop_messages = messages[1:] -%}{%- else -%}{%- set first = '' -%}{%- set loop_messages = messages -%}{%- endif -%}"
    "{%- for message in loop_messages -%}{%- if strict and (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}"
    "{{ raise_exception('roles must alternate') }}{%- endif -%}{%- for item in message['content'] if item is mapping -%}"
    "{%- if item['type'] == 'image' -%}{{ '<image>' }}{%- elif item['type'] == 'text' -%}{{ item['text'] | trim }}{%- endif -%}"
    "{%- endfor -%}{%- endfor -%}",
    "{%- if not date_string is defined %}{%- if strftime_now is defined %}{%- set date_string = strftime_now('%d %b %Y') %}"
    "{%- else %}{%- set date_string = '26 Jul 2024' %}{%- endif %}{%- endif %}{{ date_string }}{{ tools | tojson(indent=4) }}"
    "{%- for m in messages | selectattr('role', 'equalto', 'user') | list -%}{{ m.content | length }}{%- endfor -%}"
    "{%- macro render(x, depth=0) -%}{%- if x is mapping -%}{%- for k, v in x | dictsort -%}{{ k }}:{{ render(v, depth + 1) }}"
    "{%- endfor -%}{%- elif x is iterable and x is not string -%}{{ x | join(',') }}{%- else -%}{{ x }}{%- endif -%}{%- endmacro -%}"
    "{{ render(tools[0]) }}"};

// A chat of two turns with a call of a tool.
Json fuzzed_chat() {
  const auto message = [](const char* role, const char* text) { return Json::object({{"role", role}, {"content", text}}); };
  const Json function =
      Json::object({{"name", "f"}, {"arguments", Json::object({{"x", 1.5}, {"y", Json::array({1, "a", Json()})}})}});
  Json call = message("assistant", "");
  call["tool_calls"] = Json::array({Json::object({{"function", function}})});
  return Json::object(
      {{"messages", Json::array({message("user", "hi \xC3\xA9"), call, message("tool", "r"), message("assistant", "b")})},
       {"tools", Json::array({Json::object({{"function", function}})})},
       {"bos_token", "<s>"},
       {"add_generation_prompt", true}});
}

// Small limits, so that a template that runs without end takes no longer than others.
Target template_target() {
  Target chat;
  chat.name = "template";
  chat.seeds = template_seeds;
  chat.dictionary = template_words;
  chat.run = [variables = fuzzed_chat()](std::string_view input) {
    templates::RenderSettings settings;
    settings.limits = {.steps = 20'000, .bytes = std::size_t{1} << 20, .output = std::size_t{1} << 18, .depth = 200};
    templates::Template(input, "t.jinja").render(variables, settings);
  };
  return chat;
}

}  // namespace

std::vector<Target> template_targets() { return {template_target()}; }

}  // namespace pipetrain::fuzz
