"""Renders chat templates with jinja2 as transformers sets it up, and compares with another renderer.

    compare.py RENDER [--conversations N]    compares all templates with N conversations each
    compare.py --write FIXTURE               writes the fixture that tests/data/templates reads

RENDER is build/tests/render_templates, which `ninja -C build render_templates` makes. Needs the package jinja2.
"""
import json
import subprocess
import sys
import threading
from datetime import datetime

import jinja2
from jinja2.ext import Extension
from jinja2.sandbox import ImmutableSandboxedEnvironment

from chat_templates import TEMPLATES
from conversations import conversation


class Generation(Extension):
    """{% generation %}, which marks what the model is to say."""
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_render"), [], [], body).set_lineno(line)

    def _render(self, caller):
        return caller()


def environment():
    made = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    made.filters["tojson"] = tojson
    made.globals["raise_exception"] = raise_exception
    made.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    return made


ENVIRONMENT = environment()


def rendered(compiled, variables):
    """The text, or None for an error."""
    try:
        return compiled.render(**variables)
    except Exception:
        return None


def checksum(text):
    """FNV-1a of 64 bits."""
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def compare(program, count):
    work = []
    with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8") as other:
        def feed():
            for name, text in TEMPLATES.items():
                for seed in range(count):
                    other.stdin.write(json.dumps({"template": text, "variables": conversation(seed)}) + "\n")
            other.stdin.close()

        threading.Thread(target=feed, daemon=True).start()
        wrong = 0
        errors = 0
        for name, text in TEMPLATES.items():
            compiled = ENVIRONMENT.from_string(text)
            for seed in range(count):
                expected = rendered(compiled, conversation(seed))
                answer = json.loads(other.stdout.readline())
                errors += expected is None
                if answer.get("text") != expected:
                    wrong += 1
                    if wrong <= 10:
                        print(name, seed, "\n  expected", repr(expected), "\n  got     ", repr(answer))
    print(f"{len(TEMPLATES)} templates x {count} conversations: {wrong} differ, {errors} are errors in both")
    return wrong == 0


def write(path):
    conversations = [conversation(seed) for seed in range(24)]
    sums = {}
    for name, text in TEMPLATES.items():
        compiled = ENVIRONMENT.from_string(text)
        texts = [rendered(compiled, one) for one in conversations]
        sums[name] = ["error" if one is None else checksum(one) for one in texts]
    with open(path, "w", encoding="utf-8") as out:
        json.dump({"templates": TEMPLATES, "conversations": conversations, "checksums": sums}, out, ensure_ascii=True, indent=0)


if __name__ == "__main__":
    if sys.argv[1] == "--write":
        write(sys.argv[2])
    else:
        sys.exit(not compare(sys.argv[1], int(sys.argv[3]) if len(sys.argv) > 3 else 500))
