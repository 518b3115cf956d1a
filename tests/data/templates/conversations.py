"""Random conversations, as datasets of chats have them: system turns, several questions and answers, tools and their calls."""
import random

WORDS = ("the a model train loss step data why how sea salt river \u00e9t\u00e9 na\u00efve \u6f22\u5b57 \u043f\u0440\u0438\u0432\u0435\u0442 \U0001f600 don't \"quoted\" <b>tag</b> {curly} "
         "{{ braces }} {% tag %} a\\b tab\there <|im_end|> </s> [INST] <think> </think> & | 3.14 1e9 None true").split(" ")


def words(rng, most=12):
    text = " ".join(rng.choice(WORDS) for _ in range(rng.randrange(most)))
    return rng.choice(["", "", "", "\n", "  ", "\n\n"]) + text + rng.choice(["", "", "", "\n", " ", "\t\n"])


def scalar(rng):
    return rng.choice([None, True, False, 0, 1, -7, 123456789, 0.5, -1.0, 1e-7, 1e22, 3.0, words(rng, 4), ""])


def json_value(rng, depth=2):
    kind = rng.randrange(6) if depth else 0
    if kind < 3:
        return scalar(rng)
    if kind < 5:
        return {rng.choice(["a", "b", "city", "x y", "\u00e9"]) + str(i): json_value(rng, depth - 1) for i in range(rng.randrange(4))}
    return [json_value(rng, depth - 1) for _ in range(rng.randrange(4))]


def tool(rng):
    names = ["get_weather", "search", "add", "send_mail"]
    properties = {name: {"type": rng.choice(["string", "number", "integer", "boolean", ["string", "null"]]), "description": words(rng, 5)}
                  for name in rng.sample(["city", "query", "a", "b", "unit"], rng.randrange(4))}
    if properties and rng.random() < 0.3:
        next(iter(properties.values()))["enum"] = ["c", "f"]
    function = {"name": rng.choice(names), "description": words(rng, 6),
                "parameters": {"type": "object", "properties": properties, "required": list(properties)[:1]}}
    if rng.random() < 0.2:
        function["return"] = {"type": "string", "description": words(rng, 3)}
    return {"type": "function", "function": function}


def tool_call(rng):
    call = {"type": "function", "function": {"name": rng.choice(["get_weather", "search"]), "arguments": {
        name: json_value(rng, 1) for name in rng.sample(["city", "query", "days"], rng.randrange(3))}}}
    if rng.random() < 0.5:
        call["id"] = "call" + str(rng.randrange(10 ** 5)).zfill(5)
    return call


def content(rng):
    if rng.random() < 0.08:
        return [{"type": "text", "text": words(rng)} for _ in range(rng.randrange(1, 3))]
    return words(rng)


def answer(rng, tools):
    message = {"role": "assistant", "content": content(rng)}
    if rng.random() < 0.2:
        message["reasoning_content"] = words(rng)
    if isinstance(message["content"], str) and rng.random() < 0.15:
        message["content"] = "<think>" + words(rng) + "</think>" + message["content"]
    if tools and rng.random() < 0.4:
        message["tool_calls"] = [tool_call(rng) for _ in range(rng.randrange(1, 3))]
        if rng.random() < 0.5:
            message["content"] = rng.choice(["", None])
    return message


def conversation(seed):
    """The variables of a template for one conversation."""
    rng = random.Random(seed)
    tools = [tool(rng) for _ in range(rng.randrange(1, 4))] if rng.random() < 0.4 else None
    messages = [{"role": "system", "content": content(rng)}] if rng.random() < 0.5 else []
    for _ in range(rng.randrange(1, 5)):
        messages.append({"role": "user", "content": content(rng)})
        if rng.random() < 0.1:
            messages[-1]["name"] = "ann"
        messages.append(answer(rng, tools))
        if messages[-1].get("tool_calls"):
            for call in messages[-1]["tool_calls"]:
                messages.append({"role": "tool", "name": call["function"]["name"], "content": words(rng)})
                if "id" in call:
                    messages[-1]["tool_call_id"] = call["id"]
            messages.append(answer(rng, None))
    if rng.random() < 0.3:
        messages.pop()
    if rng.random() < 0.03:
        messages.insert(rng.randrange(len(messages) + 1), {"role": rng.choice(["developer", "user", "assistant"]), "content": words(rng)})
    variables = {"messages": messages, "tools": tools, "documents": None, "add_generation_prompt": rng.random() < 0.5,
                 "bos_token": "<s>", "eos_token": "</s>"}
    if rng.random() < 0.15:
        variables["documents"] = [{"title": words(rng, 4), "text": words(rng)} for _ in range(rng.randrange(1, 3))]
    if rng.random() < 0.3:
        variables["enable_thinking"] = rng.random() < 0.5
    if rng.random() < 0.2:
        variables["date_string"] = "26 Jul 2024"
    if rng.random() < 0.1:
        variables["custom_tools"] = tools
    return variables
