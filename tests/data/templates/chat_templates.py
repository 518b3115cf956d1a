"""Chat templates in the style of those that models publish, each with constructs that others do not have."""

TEMPLATES = {}


def template(name, text):
    TEMPLATES[name] = text


template("chatml", """{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}""")
template("chatml_default_system", """{% for m in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\\nBe brief.<|im_end|>\\n' }}{% endif %}{{'<|im_start|>' + m.role + '\\n' + m.content|string + '<|im_end|>'}}{% if (loop.last and add_generation_prompt) or not loop.last %}{{ '\\n' }}{% endif %}{% endfor %}{% if add_generation_prompt and messages[-1]['role'] != 'assistant' %}{{ '<|im_start|>assistant\\n' }}{% endif %}""")
template("chatml_tools", """{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}
        {{- messages[0].content ~ '\\n\\n' }}
    {%- endif %}
    {{- "# Functions\\n\\nSignatures lie in the tags <functions></functions>:\\n<functions>" }}
    {%- for tool in tools %}
        {{- "\\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\\n</functions>\\n\\nAnswer a call as {\\"name\\": <name>, \\"arguments\\": <object>}.<|im_end|>\\n" }}
{%- else %}
    {%- if messages[0].role == 'system' %}
        {{- '<|im_start|>system\\n' ~ messages[0].content ~ '<|im_end|>\\n' }}
    {%- endif %}
{%- endif %}
{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) or (message.role == "assistant" and not message.tool_calls) %}
        {{- '<|im_start|>' ~ message.role ~ '\\n' ~ message.content ~ '<|im_end|>' ~ '\\n' }}
    {%- elif message.role == "assistant" %}
        {{- '<|im_start|>' + message.role }}
        {%- if message.content %}
            {{- '\\n' ~ message.content }}
        {%- endif %}
        {%- for tool_call in message.tool_calls %}
            {%- if tool_call.function is defined %}
                {%- set tool_call = tool_call.function %}
            {%- endif %}
            {{- '\\n<call>\\n{"name": "' }}
            {{- tool_call.name }}
            {{- '", "arguments": ' }}
            {{- tool_call.arguments | tojson }}
            {{- '}\\n</call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == "tool" %}
        {%- if (loop.index0 == 0) or (messages[loop.index0 - 1].role != "tool") %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\\n<result>\\n' }}
        {{- message.content }}
        {{- '\\n</result>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}
            {{- '<|im_end|>\\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
""")
template("thinking_rewritten", """{%- set ns = namespace(multi_step=true, last_query=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step and message.role == "user" and message.content is string and not(message.content.startswith('<result>') and message.content.endswith('</result>')) %}
        {%- set ns.multi_step = false %}
        {%- set ns.last_query = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.content is string %}
        {%- set content = message.content %}
    {%- else %}
        {%- set content = '' %}
    {%- endif %}
    {%- if message.role == "assistant" %}
        {%- set reasoning_content = '' %}
        {%- if message.reasoning_content is string %}
            {%- set reasoning_content = message.reasoning_content %}
        {%- else %}
            {%- if '</think>' in content %}
                {%- set reasoning_content = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
                {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
            {%- endif %}
        {%- endif %}
        {%- if loop.index0 > ns.last_query %}
            {%- if loop.last or (not loop.last and reasoning_content) %}
                {{- '<|im_start|>' + message.role + '\\n<think>\\n' + reasoning_content.strip('\\n') + '\\n</think>\\n\\n' + content.lstrip('\\n') }}
            {%- else %}
                {{- '<|im_start|>' + message.role + '\\n' + content }}
            {%- endif %}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\\n' + content }}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
    {%- else %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}""")
template("headers", """{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}""")
template("headers_tools", """{{- bos_token }}
{%- if custom_tools is defined %}
    {%- set tools = custom_tools %}
{%- endif %}
{%- if not tools_in_user_message is defined %}
    {%- set tools_in_user_message = true %}
{%- endif %}
{%- if not date_string is defined %}
    {%- if strftime_now is defined %}
        {%- set date_string = strftime_now("%%d %%b") %}
    {%- else %}
        {%- set date_string = "26 Jul 2024" %}
    {%- endif %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}

{#- The system message lies in a variable of its own, so that it can be put elsewhere. #}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
{%- if tools is not none %}
    {{- "Environment: python\\n" }}
{%- endif %}
{{- "Today: " + date_string + "\\n\\n" }}
{%- if tools is not none and not tools_in_user_message %}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\\n\\n" }}
    {%- endfor %}
{%- endif %}
{{- system_message }}
{{- "<|eot_id|>" }}
{%- if tools_in_user_message and not tools is none %}
    {%- if messages | length != 0 %}
        {%- set first_user_message = messages[0]['content']|trim %}
        {%- set messages = messages[1:] %}
    {%- else %}
        {{- raise_exception("There is no first user message to put the tools into!") }}
{%- endif %}
    {{- '<|start_header_id|>user<|end_header_id|>\\n\\n' -}}
    {{- "Answer with a call of one of these functions.\\n\\n" }}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\\n\\n" }}
    {%- endfor %}
    {{- first_user_message + "<|eot_id|>"}}
{%- endif %}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls|length == 1 %}
            {{- raise_exception("Only one call at once!") }}
        {%- endif %}
        {%- set tool_call = message.tool_calls[0].function %}
        {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' -}}
        {{- '{"name": "' + tool_call.name + '", ' }}
        {{- '"parameters": ' }}
        {{- tool_call.arguments | tojson }}
        {{- "}" }}
        {{- "<|eot_id|>" }}
    {%- elif message.role == "tool" or message.role == "ipython" %}
        {{- "<|start_header_id|>ipython<|end_header_id|>\\n\\n" }}
        {%- if message.content is mapping or message.content is iterable %}
            {{- message.content | tojson }}
        {%- else %}
            {{- message.content }}
        {%- endif %}
        {{- "<|eot_id|>" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
""")
template("inst", """{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set system_message = messages[0]['content'] %}{% else %}{% set loop_messages = messages %}{% set system_message = false %}{% endif %}{% for message in loop_messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Roles must take turns: user/assistant/...') }}{% endif %}{% if loop.index0 == 0 and system_message != false %}{% set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + message['content'] %}{% else %}{% set content = message['content'] %}{% endif %}{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}{% elif message['role'] == 'assistant' %}{{ ' '  + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}""")
template("inst_tools", """{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}
{%- set user_messages = loop_messages | selectattr("role", "equalto", "user") | list %}
{#- User and assistant take turns, without the messages about tools. #}
{%- set ns = namespace() %}
{%- set ns.index = 0 %}
{%- for message in loop_messages %}
    {%- if not (message.role == "tool" or message.role == "tool_results" or (message.tool_calls is defined and message.tool_calls is not none)) %}
        {%- if (message["role"] == "user") != (ns.index % 2 == 0) %}
            {{- raise_exception("Behind the system message, user and assistant take turns") }}
        {%- endif %}
        {%- set ns.index = ns.index + 1 %}
    {%- endif %}
{%- endfor %}
{{- bos_token }}
{%- for message in loop_messages %}
    {%- if message["role"] == "user" %}
        {%- if tools is not none and (message == user_messages[-1]) %}
            {{- "[AVAILABLE_TOOLS] [" }}
            {%- for tool in tools %}
                {%- set tool = tool.function %}
                {{- '{"type": "function", "function": {' }}
                {%- for key, val in tool.items() if key != "return" %}
                    {%- if val is string %}
                        {{- '"' + key + '": "' + val + '"' }}
                    {%- else %}
                        {{- '"' + key + '": ' + val|tojson }}
                    {%- endif %}
                    {%- if not loop.last %}
                        {{- ", " }}
                    {%- endif %}
                {%- endfor %}
                {{- "}}" }}
                {%- if not loop.last %}
                    {{- ", " }}
                {%- else %}
                    {{- "]" }}
                {%- endif %}
            {%- endfor %}
            {{- "[/AVAILABLE_TOOLS]" }}
        {%- endif %}
        {%- if loop.last and system_message is defined %}
            {{- "[INST] " + system_message + "\\n\\n" + message["content"] + "[/INST]" }}
        {%- else %}
            {{- "[INST] " + message["content"] + "[/INST]" }}
        {%- endif %}
    {%- elif message.tool_calls is defined and message.tool_calls is not none %}
        {{- "[TOOL_CALLS] [" }}
        {%- for tool_call in message.tool_calls %}
            {%- set out = tool_call.function|tojson %}
            {{- out[:-1] }}
            {%- if not tool_call.id is defined or tool_call.id|length != 9 %}
                {{- raise_exception("Ids of calls have 9 characters!") }}
            {%- endif %}
            {{- ', "id": "' + tool_call.id + '"}' }}
            {%- if not loop.last %}
                {{- ", " }}
            {%- else %}
                {{- "]" + eos_token }}
            {%- endif %}
        {%- endfor %}
    {%- elif message["role"] == "assistant" %}
        {{- " " + message["content"]|trim + eos_token}}
    {%- elif message["role"] == "tool_results" or message["role"] == "tool" %}
        {%- if message.content is defined and message.content.content is defined %}
            {%- set content = message.content.content %}
        {%- else %}
            {%- set content = message.content %}
        {%- endif %}
        {{- '[TOOL_RESULTS] {"content": ' + content|string + ", " }}
        {{- '"call": "' + message.tool_call_id|default("none") + '"}[/TOOL_RESULTS]' }}
    {%- else %}
        {{- raise_exception("Only user and assistant roles are supported, with an initial system message!") }}
    {%- endif %}
{%- endfor %}
""")
template("turns", """{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {%- if messages[0]['content'] is string -%}
        {%- set first_user_prefix = messages[0]['content'] + '

' -%}
    {%- else -%}
        {%- set first_user_prefix = messages[0]['content'][0]['text'] + '

' -%}
    {%- endif -%}
    {%- set loop_messages = messages[1:] -%}
{%- else -%}
    {%- set first_user_prefix = "" -%}
    {%- set loop_messages = messages -%}
{%- endif -%}
{%- for message in loop_messages -%}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}
        {{ raise_exception("Conversation roles must take turns") }}
    {%- endif -%}
    {%- if (message['role'] == 'assistant') -%}
        {%- set role = "model" -%}
    {%- else -%}
        {%- set role = message['role'] -%}
    {%- endif -%}
    {{ '<start_of_turn>' + role + '
' + (first_user_prefix if loop.first else "") }}
    {%- if message['content'] is string -%}
        {{ message['content'] | trim }}
    {%- elif message['content'] is iterable -%}
        {%- for item in message['content'] -%}
            {%- if item['type'] == 'image' -%}
                {{ '<start_of_image>' }}
            {%- elif item['type'] == 'text' -%}
                {{ item['text'] | trim }}
            {%- endif -%}
        {%- endfor -%}
    {%- else -%}
        {{ raise_exception("Invalid content type") }}
    {%- endif -%}
    {{ '<end_of_turn>
' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{'<start_of_turn>model
'}}
{%- endif -%}
""")
template("pipes", """{% for message in messages %}{% if message['role'] == 'system' and 'tools' in message and message['tools'] is not none %}{{ '<|' + message['role'] + '|>' + message['content'] + '<|tool|>' + message['tools'] + '<|/tool|>' + '<|end|>' }}{% else %}{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% else %}{{ eos_token }}{% endif %}""")
template("separators", """{% for message in messages %}{% if (message['role'] == 'system') %}{{'<|im_start|>system<|im_sep|>' + message['content'] + '<|im_end|>'}}{% elif (message['role'] == 'user') %}{{'<|im_start|>user<|im_sep|>' + message['content'] + '<|im_end|>'}}{% elif (message['role'] == 'assistant') %}{{'<|im_start|>assistant<|im_sep|>'}}{% generation %}{{message['content'] + '<|im_end|>'}}{% endgeneration %}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant<|im_sep|>' }}{% endif %}""")
template("metadata", """{# ───── defaults ───── #}
{%- if enable_thinking is not defined -%}
{%- set enable_thinking = true -%}
{%- endif -%}
{# ───── mode ───── #}
{%- if enable_thinking -%}
  {%- set reasoning_mode = "/think" -%}
{%- else -%}
  {%- set reasoning_mode = "/no_think" -%}
{%- endif -%}
{{- "<|im_start|>system\\n" -}}
{%- if messages[0].role == "system" -%}
  {%- set system_message = messages[0].content -%}
  {%- if "/no_think" in system_message -%}
    {%- set reasoning_mode = "/no_think" -%}
  {%- endif -%}
  {%- set custom_instructions = system_message.replace("/no_think", "").replace("/think", "").rstrip() -%}
{%- endif -%}
{%- if "/system_override" in (custom_instructions or "") -%}
  {{- custom_instructions.replace("/system_override", "").rstrip() -}}
{%- else -%}
  {{- "## Metadata\\n\\n" -}}
  {{- "Reasoning Mode: " + reasoning_mode + "\\n\\n" -}}
  {{- "## Instructions\\n\\n" -}}
  {%- if custom_instructions -%}
    {{- custom_instructions + "\\n\\n" -}}
  {%- elif reasoning_mode == "/think" -%}
    {{- "Think first.\\n\\n" -}}
  {%- endif -%}
  {%- if tools -%}
    {%- set ns = namespace(text="<tools>\\n") -%}
    {%- for tool in tools -%}
      {%- set ns.text = ns.text ~ (tool | string) ~ "\\n" -%}
    {%- endfor -%}
    {{- ns.text + "</tools>" -}}
  {%- endif -%}
{%- endif -%}
{{- "<|im_end|>\\n" -}}
{# ───── messages ───── #}
{%- for message in messages -%}
    {%- set content = message.content if message.content is string else "" -%}
    {%- if message.role == "user" -%}
        {{ "<|im_start|>" + message.role + "\\n"  + content + "<|im_end|>\\n" }}
    {%- elif message.role == "assistant" -%}
        {% generation %}
        {%- if reasoning_mode == "/think" -%}
            {{ "<|im_start|>assistant\\n" + content.lstrip("\\n") + "<|im_end|>\\n" }}
        {%- else -%}
            {{ "<|im_start|>assistant\\n" + "<think>\\n\\n</think>\\n" + content.lstrip("\\n") + "<|im_end|>\\n" }}
        {%- endif -%}
        {% endgeneration %}
    {%- elif message.role == "tool" -%}
    {{ "<|im_start|>" + "user\\n"  + content + "<|im_end|>\\n" }}
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{- "<|im_start|>assistant\\n" if reasoning_mode == "/think" else "<|im_start|>assistant\\n<think>\\n\\n</think>\\n" -}}
{%- endif -%}
""")
template("roles_documents", """{%- if messages[0]['role'] == 'system' %}
     {%- set system_message = messages[0]['content'] %}
     {%- set loop_messages = messages[1:] %}
 {%- else %}
     {%- set system_message = "Knowledge ends in 2024." %}
     {%- if tools and documents %}
         {%- set system_message = system_message + "\\nUse the tools and the documents." %}
     {%- elif tools %}
         {%- set system_message = system_message + "\\nUse the tools." %}
     {%- elif documents %}
         {%- set system_message = system_message + "\\nUse the documents." %}
    {%- endif %}
    {%- set loop_messages = messages %}
 {%- endif %}
 {{- '<|role|>system<|/role|>' ~ system_message ~ '<|eot|>\\n' }}
 {%- if tools %}
     {{- '<|role|>tools<|/role|>' }}
     {{- tools | tojson(indent=4) }}
     {{- '<|eot|>\\n' }}
 {%- endif %}
 {%- if documents %}
     {%- for document in documents %}
         {{- '<|role|>document {"id": "' + (document['doc_id'] | default(loop.index) | string) + '"}<|/role|>\\n' }}
         {{- document['text'] }}
         {{- '<|eot|>\\n' }}
     {%- endfor %}
 {%- endif %}
 {%- for message in loop_messages %}
     {{- '<|role|>' + message['role'] + '<|/role|>' ~ message['content'] ~ '<|eot|>\\n' }}
     {%- if loop.last and add_generation_prompt %}
         {{- '<|role|>assistant' }}
             {%- if controls is defined %}
                 {{- ' ' + controls | tojson()}}
             {%- endif %}
         {{- '<|/role|>' }}
     {%- endif %}
 {%- endfor %}""")
template("olmo_like", """{{ bos_token }}{%- set has_system = messages|selectattr('role', 'equalto', 'system')|list|length > 0 -%}{%- if not has_system -%}{{ '<|im_start|>system\\nA helper without functions.<|im_end|>\\n' }}{%- endif -%}{%- for message in messages -%}{%- if message['role'] == 'system' -%}{{ '<|im_start|>system\\n' ~ message['content'] }}{%- if message.get('functions', none) is not none -%}{{ ' <functions>' + message['functions'] + '</functions>' }}{%- endif -%}{{ '<|im_end|>\\n' }}{%- elif message['role'] == 'user' -%}{{ '<|im_start|>user\\n' ~ message['content'] ~ '<|im_end|>\\n' }}{%- elif message['role'] == 'assistant' -%}{{ '<|im_start|>assistant\\n' }}{%- if message.get('content', none) is not none -%}{{ message['content'] }}{%- endif -%}{%- if message.get('tool_calls', none) is not none -%}{{ '<calls>' ~ message['tool_calls'] ~ '</calls>' }}{%- endif -%}{%- if not loop.last -%}{{ '<|im_end|>' + '\\n' }}{%- else -%}{{ eos_token }}{%- endif -%}{%- elif message['role'] in ['environment', 'tool'] -%}{{ '<|im_start|>environment\\n' + message['content'] + '<|im_end|>\\n' }}{%- endif -%}{%- if loop.last and add_generation_prompt -%}{{ '<|im_start|>assistant\\n' }}{%- endif -%}{%- endfor -%}""")
template("plain_lines", """{% for message in messages %}
{% if message['role'] == 'user' %}
{{ '<|user|>\\n' ~ message['content'] ~ eos_token }}
{% elif message['role'] == 'system' %}
{{ '<|system|>\\n' ~ message['content'] ~ eos_token }}
{% elif message['role'] == 'assistant' %}
{{ '<|assistant|>\\n'  ~ message['content'] ~ eos_token }}
{% endif %}
{% if loop.last and add_generation_prompt %}
{{ '<|assistant|>' }}
{% endif %}
{% endfor %}""")
template("macro_content", """{%- macro render_content(content, trim=false) -%}
  {%- if content is string -%}{{ content | trim if trim else content }}
  {%- elif content is sequence and content is not mapping -%}
    {%- for part in content -%}{{ part.text if part is mapping and 'text' in part else part }}{{- '|' if not loop.last -}}{%- endfor -%}
  {%- elif content is none or content is undefined -%}(nothing)
  {%- else -%}{{ content | tojson }}
  {%- endif -%}
{%- endmacro -%}
{%- for message in messages -%}
[{{ message.role | upper }}:{{ loop.index }}/{{ loop.length }}] {{ render_content(message.content, trim=loop.index is even) }}
{% endfor -%}
{{ '[ASSISTANT]' if add_generation_prompt }}""")
template("typescript_tools", """{%- macro type_of(spec, nested=false) -%}
    {%- if spec.type is string -%}
        {%- if spec.type == 'string' -%}
            {%- if spec.enum -%}{{ '"' + spec.enum|join('" | "') + '"' }}{%- else -%}string{%- endif -%}
        {%- elif spec.type in ['number', 'integer'] -%}number
        {%- elif spec.type == 'object' -%}
            {{- '{' -}}
            {%- for name, inner in spec.properties.items() -%}
                {{- '\\n' -}}{{- '  ' * (2 if nested else 1) -}}{{- name + ('?' if name not in (spec.required or []) else '') + ': ' -}}{{- type_of(inner, true) -}}
                {%- if not loop.last -%},{%- endif -%}
            {%- endfor -%}
            {{- '\\n}' -}}
        {%- else -%}any{%- endif -%}
    {%- elif spec.type is iterable -%}
        {{- spec.type | map('upper') | join(' | ') -}}
    {%- endif -%}
{%- endmacro -%}
{%- if tools -%}
namespace functions {
{%- for tool in tools %}
  // {{ tool.function.description | replace('\\n', ' ') | trim }}
  type {{ tool.function.name }} = (_: {{ type_of(tool.function.parameters) }}) => any;
{%- endfor %}
}
{% endif -%}
{%- for m in messages if m.role != 'system' -%}
<|start|>{{ m.role }}<|message|>{{ m.content if m.content is string else m.content | tojson }}<|end|>
{%- endfor -%}
{%- if add_generation_prompt -%}<|start|>assistant{%- endif -%}""")
template("call_blocks", """{%- macro turn(role) -%}<{{ role }}>{{ caller() }}</{{ role }}>{%- endmacro -%}
{%- macro listed(items) -%}{% for item in items %}{{ caller(item, loop.index0) }};{% endfor %}{%- endmacro -%}
{%- for message in messages %}
{% call turn(message.role) %}{{ message.content }}{% endcall %}
{%- endfor %}
{% call(tool, i) listed(tools or []) %}{{ i }}:{{ tool.function.name }}{% endcall %}""")
template("filter_blocks", """{% for message in messages %}{% filter trim %}
   {{ message.role }}: {{ message.content }}
{% endfilter %}{% set body %}{{ message.content }}{% endset %}{% set shout | upper | trim %}{{ body }}!{% endset %}[{{ body|length }}|{{ shout }}]
{% endfor %}""")
template("loop_controls", """{% for message in messages %}{% if message.role == 'system' %}{% continue %}{% endif %}{% if loop.index > 6 %}{% break %}{% endif %}{{ loop.index0 }}.{{ loop.revindex }}.{{ loop.revindex0 }} {{ message.role }} {{ loop.previtem.role if not loop.first else '-' }} {{ loop.nextitem.role if loop.nextitem is defined else '-' }} {{ loop.cycle('odd', 'even') }} {{ loop.changed(message.role) }}
{% else %}none{% endfor %}""")
template("lists", """{% set roles = messages | map(attribute='role') | list %}{{ roles }}
{{ roles | unique | join(',') }} {{ roles | sort | first }} {{ roles | reverse | list | last }} {{ roles[::2] }} {{ roles[-3:-1] }} {{ roles.count('user') }} {{ 'tool' in roles }}
{% for role, group in messages | groupby('role') %}{{ role }}={{ group | length }} {% endfor %}
{% for batch in roles | batch(3, '-') %}{{ batch | join('/') }} {% endfor %}
{% for part in roles | slice(2) %}{{ part }} {% endfor %}
{{ messages | map(attribute='content') | select('string') | map('length') | sum }} {{ messages | rejectattr('role', 'in', ['user', 'system']) | list | count }}""")
template("dicts", """{% for message in messages %}{% for key, value in message | dictsort %}{{ key }}={{ value }};{% endfor %}
{% for key in message %}{{ key }}{{ ',' if not loop.last }}{% endfor %} {{ message.keys() | list }} {{ message.get('name', 'nobody') }} {{ message.items() | list | length }} {{ dict(message, role='x').role }}
{% endfor %}""")
template("numbers", """{% set ns = namespace(total=0, longest=0) %}{% for message in messages %}{% set size = message.content | string | length %}{% set ns.total = ns.total + size %}{% set ns.longest = [ns.longest, size] | max %}{{ size // 7 }} {{ size % 7 }} {{ size / 4 }} {{ (size * 1.5) | round(1) }} {{ -size // 3 }} {{ size ** 2 }} {{ 2 ** -1 }} {{ size is divisibleby 3 }}
{% endfor %}{{ ns.total }} {{ ns.longest }} {{ (ns.total / 3) | int }} {{ '%05.2f|%-4d|%s' % (ns.total / 3, ns.longest, 'x') }} {{ ns.total | float }}""")
template("strings", """{% for message in messages %}{% set text = message.content if message.content is string else '' %}{{ text.title() }}|{{ text | title }}|{{ text.capitalize() }}|{{ text.upper() }}|{{ text.lower() }}|{{ text.split() | length }}|{{ text.split(' ', 2) }}|{{ text.rsplit(' ', 1) }}|{{ text.find('a') }}|{{ text[::-1] }}|{{ text[2:9:2] }}|{{ text.replace('a', '4', 1) }}|{{ text.partition(' ') }}|{{ text.splitlines() }}|{{ text.strip('\\n ').startswith(('the', 'a')) }}|{{ text.zfill(9) }}|{{ text.center(9, '*') }}
{% endfor %}""")
template("jsons", """{% for message in messages %}{{ message | tojson }}
{{ message | tojson(indent=2) }}
{{ message | tojson(ensure_ascii=true, sort_keys=true) }}
{{ message | tojson(separators=(',', ':')) }}
{% endfor %}{{ tools | tojson(indent=1, separators=(';', '=')) }}""")
template("printed", """{% for message in messages %}{{ message }}
{{ [message.content, message.name, none, true, 1.0, (1,), ()] }}
{% endfor %}{{ tools }} {{ documents }} {{ undefined_name }} {{ add_generation_prompt }} {{ messages[0].missing }} {{ range(3) }} {{ messages[0].items() }}""")
template("undefined", """{{ missing | default('none') }} {{ missing is defined }} {{ (missing or 'x') }} {{ missing | length }} {{ missing ~ '!' }} {% for x in missing %}{{ x }}{% else %}empty{% endfor %} {{ messages[99] is undefined }} {{ messages[0].nothing | d('d') }} {{ '' | default('empty', true) }} {{ 'a' if missing }} {{ messages[0].content.nothing is defined }} {{ messages[-1]['tool_calls'] is defined }}
{% if tools is not none and missing.attribute %}never{% endif %}""")
template("white_space", """  {%- if messages %}
    a
    {% if true %}
  b {# comment #}
    {# whole line #}
    {%+ if true %}c{% endif +%}
  {% endif -%}

  d
{%- endif %}
{{- '  ' }} e {{ 'f' -}}
   g
{% raw %}
  {{ not read }} {% nor this %}
{%- endraw %}
{% for m in messages -%}
    {{ m.role }}
{%+ endfor %}
  {% set x = 1 %}
x{{ x }}


""")
template("crlf", "{% for m in messages %}\r\n  {{ m.role }}\r\n{% endfor %}\r\n{%- if tools -%}\r\ntools\r\n{% endif %}\r\n")
template("scopes", """{% set x = 'outer' %}{% for m in messages %}{{ x }}{% set x = m.role %}{{ x }} {% endfor %}{{ x }}
{% if messages %}{% set y = 'set' %}{% endif %}{{ y }} {% with a = 1, b = x %}{{ a }}{{ b }}{% set c = 2 %}{% endwith %}{{ c is defined }}
{% macro show(a, b='b', c=a) %}{{ a }}{{ b }}{{ c }}{{ x }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ show(1) }} {{ show(1, 2, 3, 4, k=5) }} {{ show(a=7) }} {{ show(*[1, 2], **{'c': 9}) }}""")
template("recursive_loop", """{% for value in [messages, tools or []] recursive %}{% if value is mapping %}<{{ loop.depth }}{{ loop(value.values() | list) }}>{% elif value is string or value is not iterable %}{{ value }},{% else %}[{{ loop(value) }}]{% endif %}{% endfor %}""")
template("comparisons", """{% for m in messages %}{{ 1 < loop.index <= 3 }} {{ not m.tool_calls }} {{ m.role == 'user' and m.content }} {{ m.name or 'nobody' }} {{ m.role in ('user', 'tool') }} {{ m.content is string }} {{ m is mapping }} {{ m.content is iterable }} {{ m.content is sequence }} {{ loop.index is odd }} {{ loop.index is number }} {{ m.role is ne 'user' }} {{ loop.index is ge 2 }} {{ m.tool_calls is none }} {{ true is boolean }} {{ m.role is sameas m.role }} {{ loop.last is sameas true }} {{ m.content is lower }} {{ loop is defined }}
{% endfor %}""")
template("escapes", """{{ 'tab\\tquote\\'\\u00e9\\x41\\101\\
continued' }} {{ "a" "b" 'c' }} {{ '<&>"' | escape }} {{ ('<b>' | safe) + '<' }} {{ messages[0].content | string | e }} {{ messages[0].content | string | urlencode }} {{ {'a': 'b c', 'd': 1} | urlencode }} {{ '%s and %r' | format('x', 'y') }}""")
template("trimmed_history", """{%- set ns = namespace(last_user=-1) -%}{%- for m in messages -%}{%- if m.role == 'user' -%}{%- set ns.last_user = loop.index0 -%}{%- endif -%}{%- endfor -%}{{ bos_token }}{%- for m in messages -%}{%- if m.role == 'user' -%}<User>{{ m.content }}{%- elif m.role == 'assistant' -%}<Assistant>{%- set c = m.content|string -%}{%- if '</think>' in c and loop.index0 < ns.last_user -%}{%- set c = c.split('</think>')|last -%}{%- endif -%}{{ c }}{{ eos_token }}{%- elif m.role == 'tool' -%}{%- if not (loop.previtem is defined and loop.previtem.role == 'tool') -%}<outputs>{%- endif -%}<output>{{ m.content }}</output>{%- if not (loop.nextitem is defined and loop.nextitem.role == 'tool') -%}</outputs>{%- endif -%}{%- endif -%}{%- endfor -%}{%- if add_generation_prompt and messages[-1].role != 'assistant' -%}<Assistant><think>
{%- endif -%}""")
template("joiners", """{% set comma = joiner('; ') %}{% set row = cycler('a', 'b') %}{% for m in messages %}{{ comma() }}{{ row.next() }}{{ m.role }}{{ row.current }}{% endfor %}{{ row.reset() }} {{ ['x', 'Y', 'z', 'y'] | sort }} {{ ['b', 'A'] | sort(case_sensitive=true, reverse=true) }} {{ [3, 1, 2] | min }} {{ [[1, 'b'], [0, 'a']] | sort(attribute=1) }} {{ range(10) | select('odd') | map('string') | join }} {{ (1, 2) + (3,) }} {{ [1] * 3 }} {{ 'ab' * 2 }}""")
template("indents", """{% for m in messages %}{{ m.content | string | indent }}
{{ m.content | string | indent(2, true) }}
{{ m.content | string | indent('> ', first=true, blank=true) }}
{{ m.content | string | truncate(12) }} {{ m.content | string | truncate(9, true, '..', 0) }} {{ m.content | string | wordcount }} {{ m.content | string | center(20) }}|
{% endfor %}""")
template("generation_whole", """{%- for message in messages -%}
{%- if message.role == 'assistant' -%}
{{ '<a>' }}{% generation %}{{ message.content | string }}
{% if message.tool_calls %}{% for call in message.tool_calls %}{{ call.function | tojson }}{% endfor %}{% endif %}</a>{% endgeneration %}
{%- else -%}
{{ '<' ~ message.role ~ '>' ~ message.content ~ '</' ~ message.role ~ '>' }}
{%- endif -%}
{%- endfor -%}""")
template("attributes", """{% for m in messages %}{{ m['role'] }} {{ m.role[0] }} {{ m.content[0] if m.content }} {{ m.content[-1:] if m.content }} {{ m | attr('items') is callable }} {{ m.items is callable }} {{ m.tool_calls[0].function.arguments | default({}) | items | list if m.tool_calls else '' }} {{ m.tool_calls[0]['function']['name'] if m.tool_calls }}{% for call in m.tool_calls or [] %}{{ call.function.arguments.items() | map(first_of) if false else '' }}{% endfor %}
{% endfor %}{{ messages.0.role }} {{ messages | map(attribute='role') | first }} {{ messages | map(attribute='name', default='?') | join(',') }} {{ messages | selectattr('name') | list | length }} {{ messages | selectattr('name', 'defined') | map(attribute='role') | list }}""")
template("refusals", """{%- if messages|length > 7 -%}{{ raise_exception('Too many messages: ' ~ messages|length) }}{%- endif -%}{%- for m in messages -%}{%- if m.role == 'tool' and m.content|length > 40 -%}{{ m.content.unknown.further }}{%- elif m.role == 'assistant' and m.content is none -%}{{ m.content + 'x' }}{%- elif m.name -%}{{ m.name + 1 }}{%- endif -%}{{ m.role }}{%- endfor -%}""")
template("print_tag", """{% print messages | length, ' messages' %}{% for role, text in messages | map('items') | map('list') | map('first') %}{{ role }}:{{ text }} {% endfor %}{% for m in messages if m.role != 'tool' %}{% if loop.first %}{{ loop.length }}{% endif %}{% for c in m.content | string if c in 'aeiou' %}{{ c }}{{ loop.index if loop.last }}{% else %}-{% endfor %}{% endfor %}""")
assert len(TEMPLATES) >= 40, len(TEMPLATES)
