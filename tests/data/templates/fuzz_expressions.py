"""Renders random expressions and blocks with jinja2 and with another renderer, and prints where they differ.

    fuzz_expressions.py RENDER [--seconds N] [--seed N]

RENDER is that of compare.py. What it refuses as not supported or too large counts as no difference.
"""
import json
import random
import signal
import subprocess
import sys
import time

from compare import ENVIRONMENT

VARIABLES = {"n": 3, "z": 0, "m": -7, "f": 2.5, "t": True, "none_value": None, "s": "Hello, World", "w": "  two words\n", "u": "\u00c9t\u00e9 \u4f60\u597d \u00df \U0001f600",
             "e": "", "xs": [3, 1, 2], "ys": ["b", "a", "C", "a"], "d": {"b": 1, "a": "x", "items": [1], "n": {"k": 2}}, "ds": [
                 {"k": 1, "v": "x"}, {"k": 0, "v": "Y"}, {"k": 1}], "nested": [[1, 2], [3, [4]]], "empty": [], "q": "it's \"q\" <&>", "num": "42", "real": "1.5e3"}
NAMES = list(VARIABLES) + ["missing"]
CONSTANTS = ["0", "1", "2", "-1", "10", "1.5", "0.0", "1e3", "''", "'a'", "'l'", "' '", "'o, W'", "'k'", "'%s|%d'", "true", "false", "none", "[]", "[1, 'a']", "(1,)", "()", "{}",
             "{'a': 1, 'b': [2]}", "range(4)", "range(5, 0, -2)", "'1_000'", "'0x1f'",
             "18446744073709551616", "-99999999999999999999", "99999999999999999999", "18446744073709551616.0", "'123456789012345678901'"]
BINARY = ["+", "-", "*", "/", "//", "%", "**", "~", "and", "or", "==", "!=", "<", "<=", ">", ">=", "in", "not in"]
TESTS = ["defined", "undefined", "none", "string", "number", "integer", "float", "boolean", "mapping", "sequence", "iterable", "true", "false", "odd", "even", "lower",
         "upper", "callable", "divisibleby(2)", "eq(1)", "ne('a')", "gt(1)", "le(2)", "in([1, 'a'])", "sameas(none)", "equalto 'a'", "escaped"]
FILTERS = ["length", "upper", "lower", "title", "capitalize", "trim", "trim('a')", "string", "int", "int(5)", "int(0, 16)", "float", "abs", "round", "round(1)", "round(1, 'floor')", "first",
           "last", "list", "join", "join('-')", "sort", "sort(reverse=true)", "unique|list", "reverse|list", "reverse", "sum", "min", "max", "tojson", "tojson(indent=2)", "default('d')",
           "default('d', true)", "replace('l', 'L')", "replace('', '.')", "batch(2)|list", "slice(2)|list", "dictsort", "items|list", "map('upper')|list", "map(attribute='k')|list",
           "select|list", "reject|list", "select('odd')|list", "selectattr('k')|list", "rejectattr('k', 'eq', 1)|list", "groupby('k')", "map('default', 0)|list", "count", "escape", "safe",
           "indent", "indent(2, true)", "truncate(5)", "wordcount", "center(9)", "urlencode", "map('string')|join(',')", "sort(attribute='k')", "list|length", "attr('upper')", "format(1, 'x')",
           "join(', ', attribute='k')", "max(attribute='k')", "tojson(sort_keys=true)", "map('length')|list", "batch(3, 'x')|list"]
METHODS = ["upper()", "lower()", "title()", "capitalize()", "strip()", "lstrip()", "rstrip('d\\n')", "split()", "split('l')", "split(' ', 1)", "rsplit('o', 1)", "splitlines()",
           "startswith('H')", "endswith(('d', 'x'))", "replace('o', '0')", "replace('o', '0', 1)", "find('o')", "rfind('o')", "count('l')", "join(['a', 'b'])", "join('xyz')",
           "partition('o')", "rpartition('o')", "zfill(15)", "center(15, '*')", "ljust(14)", "isdigit()", "isalpha()", "isupper()", "istitle()", "isspace()", "items()", "keys()",
           "values()", "get('a')", "get('zz', 1)", "index(1)", "index('o')", "count(1)", "swapcase()", "casefold()", "removeprefix('He')", "removesuffix('ld')", "append(1)", "pop()",
           "update({})", "items()|list", "keys()|list", "values()|list|length", "copy()", "isalnum()", "isnumeric()", "islower()", "split('')", "find('l', 3)", "startswith('l', 2)"]


class Writer:
    def __init__(self, rng):
        self.rng = rng

    def atom(self):
        return self.rng.choice(NAMES) if self.rng.random() < 0.6 else self.rng.choice(CONSTANTS)

    def index(self):
        return self.rng.choice(["0", "1", "-1", "5", "'a'", "'k'", "n", "true", "missing", "none", "1.0", "xs"])

    def bound(self):
        return self.rng.choice(["", "", "0", "1", "2", "-1", "-3", "9", "none", "n"])

    def expression(self, depth):
        rng = self.rng
        if depth <= 0:
            return self.atom()
        kind = rng.randrange(12)
        inner = self.expression(depth - 1)
        if kind < 3:
            return f"({inner} {rng.choice(BINARY)} {self.expression(depth - 1)})"
        if kind == 3:
            return f"{inner} {rng.choice(BINARY)} {self.expression(depth - 1)}"
        if kind == 4:
            return f"({inner})|{rng.choice(FILTERS)}"
        if kind == 5:
            return f"({inner}).{rng.choice(METHODS)}"
        if kind == 6:
            return f"({inner} is {rng.choice(['', '', 'not '])}{rng.choice(TESTS)})"
        if kind == 7:
            return f"({inner})[{self.index()}]"
        if kind == 8:
            step = rng.choice(["", "", ":2", ":-1", ":0", ":-2"])
            return f"({inner})[{self.bound()}:{self.bound()}{step}]"
        if kind == 9:
            return f"({inner} if {self.expression(depth - 1)}{rng.choice([' else ' + self.expression(depth - 1), ''])})"
        if kind == 10:
            return rng.choice(["-", "+", "not "]) + inner
        return rng.choice([f"[{inner}, {self.atom()}]", f"({inner}, {self.atom()})", f"{{'x': {inner}}}", f"{{{self.atom()}: {inner}}}", f"dict(a={inner})", f"({inner}).k", f"({inner}).a"])

    def block(self, depth):
        rng = self.rng
        space = lambda: rng.choice(["", "", " ", "\n", "  \n "])
        sign = lambda: rng.choice(["", "", "-", "+"])
        tag = lambda text: f"{{%{sign()} {text} {rng.choice(['', '-', '+'])}%}}"
        if depth <= 0 or rng.random() < 0.3:
            return space() + f"{{{{{rng.choice(['', '-'])} {self.expression(2)} {rng.choice(['', '-'])}}}}}" + space()
        inner = self.block(depth - 1)
        return space() + rng.choice([
            lambda: tag("if " + self.expression(2)) + inner + tag("else") + self.block(depth - 1) + tag("endif"),
            lambda: tag("for x in " + self.expression(2)) + "{{ loop.index }}{{ x }}" + inner + tag("endfor"),
            lambda: tag("for x in " + self.atom() + " if " + rng.choice(["x", "x is odd", "x != 1"])) + "{{ loop.length }}{{ loop.last }}" + inner + tag("else") + "none" + tag("endfor"),
            lambda: tag("set v = " + self.expression(2)) + "{{ v }}" + inner,
            lambda: tag("set v") + inner + tag("endset") + "[{{ v }}]",
            lambda: tag("macro f(a, b=" + self.atom() + ")") + "{{ a }}{{ b }}" + inner + tag("endmacro") + "{{ f(" + self.atom() + ") }}",
            lambda: tag("filter " + rng.choice(["upper", "trim", "indent(2)", "length"])) + inner + tag("endfilter"),
            lambda: tag("with v = " + self.atom()) + inner + "{{ v }}" + tag("endwith"),
            lambda: "{#" + sign() + " comment " + rng.choice(["", "-", "+"]) + "#}" + inner,
        ])() + space()


def expected(text):
    if "**" in text and ("999999999" in text or "844674407" in text or "123456789" in text):  # Python would compute for hours
        return TimeoutError()
    try:
        return ENVIRONMENT.from_string(text).render(**VARIABLES)
    except Exception as error:
        return None if not isinstance(error, TimeoutError) else error


def is_passed_over(want, answer):
    error = answer.get("error", "")
    if "has no slices" in error:  # jinja2 folds constants by another rule than it evaluates variables
        return True
    if " object at 0x" in (want or "") or "<built-in" in (want or "") or "<bound" in (want or "") or "<function" in (want or ""):
        return True
    return "too large" in error or "not supported" in error or "more than" in error or "complex" in error


def main():
    options = dict(zip(sys.argv[2::2], sys.argv[3::2]))
    rng = random.Random(int(options.get("--seed", 1)))
    end = time.time() + float(options.get("--seconds", 60))
    count = wrong = rendered = 0

    def stop(*_):
        raise TimeoutError

    signal.signal(signal.SIGALRM, stop)
    with subprocess.Popen([sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8") as other:
        while time.time() < end:
            texts = [Writer(rng).block(rng.randrange(1, 3)) if rng.random() < 0.3 else "{{ " + Writer(rng).expression(rng.randrange(1, 4)) + " }}" for _ in range(50)]
            wants = []
            for text in texts:
                signal.alarm(2)
                wants.append(expected(text))
                signal.alarm(0)
            for text in texts:
                other.stdin.write(json.dumps({"template": text, "variables": VARIABLES}) + "\n")
            other.stdin.flush()
            for text, want in zip(texts, wants):
                answer = json.loads(other.stdout.readline())
                count += 1
                rendered += want is not None
                if isinstance(want, TimeoutError) or answer.get("text") == want or is_passed_over(want, answer):
                    continue
                wrong += 1
                if wrong <= 40:
                    print(repr(text), "\n  expected", repr(want)[:300], "\n  got     ", repr(answer)[:300])
        other.stdin.close()
    print(f"{count} templates, {rendered} of them rendered: {wrong} differ")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
