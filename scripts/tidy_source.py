"""How tidy reads the project: which files there are, C++ without its comments and strings, and
where functions begin and end; and how what it finds is said. A reader of our own style, not a C++
parser: it knows no macros and no templates beyond skipping them. No rules here; those are in
tidy_rules.py.
"""

import ast
import dataclasses
import functools
import pathlib
import re

CPP = (".cpp", ".h", ".cu", ".cuh")
ROOMS = ("base", "optim", "model", "cuda", "gossip", "peer", "tests", "scripts", "configs", ".ci")


@dataclasses.dataclass(frozen=True)
class Source:
    path: str  # from the root, with forward slashes
    text: str

    @property
    def lines(self):
        return self.text.split("\n")

    @property
    def is_cpp(self):
        return self.path.endswith(CPP)

    @property
    def is_cmake(self):
        return self.path.endswith((".cmake", "CMakeLists.txt"))

    @property
    def is_script(self):
        return self.path.endswith(".py") or self.text.startswith("#!")

    @functools.cached_property
    def code(self):
        """The C++ text with comments and the insides of literals as blanks; same lines."""
        return scrub(self.text)


@dataclasses.dataclass(frozen=True, order=True)
class Finding:
    path: str
    line: int  # from 1; 0 for the file as a whole
    rule: str
    message: str

    def __str__(self):
        return f"{self.path}:{self.line}: {self.rule}: {self.message}"


def load_tree(root):
    """Every file of the rooms and of the root folder, in order of path; binary ones without text,
    for links lead to them too."""
    root = pathlib.Path(root)
    paths = [p for p in root.iterdir() if p.is_file()]
    for room in ROOMS:
        paths += [p for p in (root / room).rglob("*") if p.is_file()]
    sources = []
    for path in sorted(paths):
        relative = path.relative_to(root).as_posix()
        if "__pycache__" in relative or "/fuzz/corpus/" in relative or path.is_symlink():
            continue
        try:
            text = path.read_bytes().decode("utf-8")
        except UnicodeDecodeError:
            text = ""
        sources.append(Source(relative, "" if "\0" in text else text))
    return sources


_LITERAL = re.compile(
    r'R"(?P<tag>[^()\\ ]{0,16})\(.*?\)(?P=tag)"'  # raw string
    r"|//[^\n]*"
    r"|/\*.*?\*/"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9a-zA-Z_])'(?:\\.|[^'\\\n])+'",  # not the ' of 1'000'000
    re.DOTALL,
)
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"[^"\n]*"', re.MULTILINE)


def scrub(text):
    kept = {m.start(): m.end() for m in _INCLUDE.finditer(text)}

    def blank(match):
        found = match.group()
        line_start = text.rfind("\n", 0, match.start()) + 1
        if line_start in kept and match.end() <= kept[line_start]:
            return found
        if found.startswith("/"):
            return re.sub(r"[^\n]", " ", found)
        return found[0] + re.sub(r"[^\n]", " ", found[1:-1]) + found[-1]

    return _LITERAL.sub(blank, text)


@dataclasses.dataclass(frozen=True)
class Function:
    name: str
    line: int  # of its first word, from 1
    length: int  # lines, up to and with the closing brace


def python_functions(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield Function(node.name, node.lineno, node.end_lineno - node.lineno + 1)


_DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\\n|\\.)*", re.MULTILINE)
_SCOPE = re.compile(r"(?:inline\s+)?(?:namespace|class|struct|union|extern|enum)\b")
_TOKEN = re.compile(r"[{}();]|(?:public|private|protected)\s*:(?!:)")


def cpp_functions(code):
    """Functions of scrubbed C++: every brace at namespace or class level that is a body."""
    code = _DIRECTIVE.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), code)
    head = 0  # where the declaration under way began
    parens = 0
    at = 0
    while token := _TOKEN.search(code, at):
        at = token.end()
        mark = token.group()
        if mark == "(":
            parens += 1
        elif mark == ")":
            parens -= 1
        elif mark == "{" and parens == 0 and _opens_scope(code[head : token.start()]):
            head = at
        elif mark == "{":
            at = _closing(code, token.start())
            after = re.compile(r"\s*([,{)]?)").match(code, at).group(1)
            if parens > 0 or after:
                continue  # a braced value: default argument or member initializer
            if _has_body(code[head : token.start()]):
                yield _function(code, head, token.start(), at)
                head = at
        elif parens == 0:
            head = at


_BINDING = re.compile(r"(\w*)\s*(?:\(\s*)?(?:const\s+)?\bauto\s*&{0,2}\s*\[([\w\s,]+)\]")
_LAMBDA = re.compile(
    r"(?<![\w\])])\[([^][]*)\]\s*(?:\(([^{};]*?)\)\s*)?(?:mutable\s*|->[^{};]*)?\{")


def captured_bindings(code):
    """Names of structured bindings in scrubbed C++ that a lambda captures as they are, each with
    the place of its lambda."""
    for binding in _BINDING.finditer(code):
        end = _end_of_scope(code, binding.end(), binding[1] in ("for", "if", "while", "switch"))
        names = binding[2].replace(",", " ").split()
        for head in _LAMBDA.finditer(code, binding.end(), end):
            body = code[head.end() : _closing(code, head.end() - 1)]
            for name in names:
                if _captures(head[1], name) and _uses(head[2] or "", body, name):
                    yield name, head.start()


def _end_of_scope(code, at, is_header):
    """Where what is declared before `at` ends: with its block, or the statement that it heads."""
    opening = code.find("{", at)
    if is_header and 0 <= opening:
        return _closing(code, opening)
    depth = 0
    while at < len(code) and depth >= 0:
        depth += {"{": 1, "}": -1}.get(code[at], 0)
        at += 1
    return at


def _captures(captures, name):
    items = [item.strip() for item in captures.split(",")]
    made_anew = any(re.match(rf"&?\s*{name}\s*=", item) for item in items)
    return not made_anew and any(item in ("&", "=", name, f"&{name}") for item in items)


def _uses(parameters, body, name):
    type_of_own = r"\b(?!(?:return|throw|case|else|delete|new)\b)\w+[&*>]*\s+[&*]*"
    own = rf"{type_of_own}{name}\s*[=;,:({{[)]|auto\s*&{{0,2}}\s*\[[^]]*\b{name}\b"
    if re.search(rf"\b{name}\b", parameters) or re.search(own, body):
        return False
    return re.search(rf"(?<![.>:\w]){name}\b", body) is not None


def _opens_scope(head):
    return bool(_SCOPE.match(_plain(head))) and "(" not in _plain(head)


def _has_body(head):
    head = re.sub(r"operator\s*[^\s\w(]+", "operator", _plain(head))
    outside = _balanced(head, "(", ")")
    return "(" in head and (not re.search(r"(?<![<>!=])=(?!=)", outside) or "[" in outside)


def _plain(head):
    """A declaration without template parameters and attributes."""
    head = re.sub(r"\[\[.*?\]\]", " ", head, flags=re.DOTALL).strip()
    while match := re.match(r"template\s*<", head):
        depth = 1
        at = match.end()
        while depth and at < len(head):
            depth += {"<": 1, ">": -1}.get(head[at], 0)
            at += 1
        head = head[at:].strip()
    return re.sub(r"(?:alignas|__attribute__|noexcept)\s*\([^()]*\)", " ", head)


def _balanced(text, opening, closing):
    """The text outside every pair of brackets."""
    depth = 0
    kept = []
    for letter in text:
        depth -= letter == closing
        if depth == 0:
            kept.append(letter)
        depth += letter == opening
    return "".join(kept)


def _closing(code, opening):
    depth = 0
    for at in range(opening, len(code)):
        depth += {"{": 1, "}": -1}.get(code[at], 0)
        if depth == 0:
            return at + 1
    return len(code)


def _function(code, head, body, end):
    start = head + len(code[head:body]) - len(code[head:body].lstrip())
    name = re.search(r"(operator\s*[^\s\w(]+|[~\w:]+)\s*(?:=\s*\[[^]]*\]\s*)?\(", code[start:body])
    first = code.count("\n", 0, start)
    length = code.count("\n", 0, end) - first + 1
    return Function(name.group(1) if name else "a function", first + 1, length)
