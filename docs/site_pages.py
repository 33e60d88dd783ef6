"""What the site has beyond the pages of this folder: the reference, the playground, the colours of code.

Sphinx loads this as an extension. Before pages are read it writes `reference/`, one page for each part of the package
with every public name on it; `project/`, the pages of the folder above; `programs/`, a page for each program of
examples/; and `_static/playground/`, the explorer and the lessons as pages that need no server. None of them is kept in
the repository.
"""

from __future__ import annotations

import ast
import functools
import html
import inspect
import itertools
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from pygments.style import Style
from pygments.token import Comment, Generic, Keyword, Name, String, Token

import wiregrad
from wiregrad import errors
from wiregrad.api.compiled_function import CompiledFunction, CompileInfo, VariantInfo
from wiregrad.backends.compiled import Compiled

HERE = Path(__file__).parent
REFERENCE = HERE / "reference"
PROJECT = HERE / "project"
PLAYGROUND = HERE / "_static" / "playground"
PROGRAMS = HERE / "programs"
EXAMPLE_FILES = sorted([*(HERE.parent / "examples").glob("*.py"), *(HERE.parent / "examples" / "gallery").glob("*.py")])
"""The programs of the repository; each has a page of its own."""

TOPICS = {
    "frontends.transforms.derivatives": "Derivatives",
    "frontends.transforms.vmap_and_checkpoint": "Derivatives",
    "frontends.transforms.memory_plans": "Derivatives",
    "frontends.transforms": "Loops, solvers and fitting",
    "frontends": "Values and recording",
    "api.values": "Values and recording",
    "api.compiled_function": "Compiling",
    "api": "Circuits and runs",
    "files": "Circuits and runs",
    "api.diagnostics": "Questions",
    "learn": "Questions",
    "exchange": "Other frameworks",
    "nn": "Networks and training",
    "optim": "Networks and training",
    "training": "Networks and training",
    "ops": "Ops and errors",
    "errors": "Ops and errors",
}
"""The page of a public name, by the longest beginning of its module's name that is listed here."""
RETURNED_CLASSES: dict[str, list[type]] = {
    "compile": [CompiledFunction, CompileInfo, VariantInfo],
    "Circuit": [Compiled],
}
"""Classes without a public name whose objects users work with: each is on the page of the name that leads to them."""
ROOT_PAGES = ["CONTRIBUTING", "SECURITY", "CHANGELOG"]
"""Pages beside this folder that the site has too."""
MAX_SIGNATURE = 80
"""Longest signature, in characters, that is written on one line."""
CELL = re.compile(r'<td(?: class="([^"]*)")?>(.*?)</td>', re.DOTALL)
"""A cell of a table in HTML: its classes, and what is in it."""
LONG_CELL = 45
"""Shortest text, in characters, of a cell that must not become a narrow column."""
EXAMPLES = ["expression", "neuron", "fan-out", "softmax", "mlp", "nan"]
"""Examples of the explorer that the playground has."""


def find_topic(name: str) -> str:
    """Return the page that documents `wg.NAME`."""
    thing = getattr(wiregrad, name)
    module = thing.__name__ if isinstance(thing, ModuleType) else thing.__module__
    parts = module.removeprefix("wiregrad.").split(".")
    for end in range(len(parts), 0, -1):
        topic = TOPICS.get(".".join(parts[:end]))
        if topic is not None:
            return topic
    raise KeyError(f"wg.{name} comes from {module}, which has no page in TOPICS")


def list_topics() -> dict[str, list[str]]:
    """Return the public names of each page of the reference."""
    topics: dict[str, list[str]] = {topic: [] for topic in TOPICS.values()}
    for name in sorted(wiregrad.__all__, key=str.lower):
        topics[find_topic(name)].append(name)
    return topics


def write_reference() -> None:
    """Write a page for each topic, and the index of all names."""
    topics = list_topics()
    pages = {name_file(topic): write_topic(topic, names) for topic, names in topics.items()}
    pages["index.md"] = write_index(topics)
    REFERENCE.mkdir(exist_ok=True)
    for file, text in pages.items():
        (REFERENCE / file).write_text(text, encoding="utf-8")


def name_file(topic: str) -> str:
    """Return the file of a topic's page: "Values and recording" becomes values-and-recording.md."""
    return re.sub(r"\W+", "-", topic.lower()) + ".md"


def name_anchor(name: str) -> str:
    """Return the anchor of a name: case does not count in anchors, but `wg.Circuit` is not `wg.circuit`."""
    return f"class-{name.lower()}" if name[0].isupper() else name


def write_index(topics: dict[str, list[str]]) -> str:
    """Return the page that lists every public name with its first sentence."""
    place = {name: topic for topic, names in topics.items() for name in names}
    rows = [
        f"| [`wg.{name}`]({name_file(topic)}#{name_anchor(name)}) | {first_sentence(getattr(wiregrad, name))} |"
        for name, topic in sorted(place.items(), key=lambda item: item[0].lower())
    ]
    return join_blocks(
        "# All names",
        f"The {len(place)} names of `import wiregrad as wg`. Functions of arrays and numbers such as `wg.tanh` and "
        "`wg.softmax` are on [a page of their own](../functions.md).",
        "\n".join(["| name | what it does |", "| --- | --- |", *rows]),
        "\n".join(["```{toctree}", ":hidden:", "", *(name_file(topic) for topic in topics), "```"]),
    )


def write_topic(topic: str, names: list[str]) -> str:
    """Return the page with everything about some public names."""
    blocks = [f"# {topic}"]
    for name in names:
        thing = getattr(wiregrad, name)
        blocks += [f"({name_anchor(name)})=", f"## wg.{name}", *document(f"wg.{name}", thing)]
        if isinstance(thing, type):
            blocks += document_methods(name, thing)
        for returned in RETURNED_CLASSES.get(name, ()):
            blocks += document_class(returned)
        if isinstance(thing, ModuleType):
            blocks += document_module(name, thing)
        if thing is errors.WiregradError:
            blocks += document_errors()
    return join_blocks(*blocks)


def document(name: str, thing: Any) -> Iterator[str]:
    """Yield the signature and the docstring of something."""
    signature = read_signature(thing)
    if signature:
        yield f"```python\n{wrap_signature(name + signature)}\n```"
    yield from convert_docstring(inspect.getdoc(thing) or "")


def list_members(cls: type) -> dict[str, Any]:
    """Return the public members of a class that have a docstring, its fields too, by name."""
    members = {key: member for key, member in inspect.getmembers(cls) if not key.startswith("_")}
    return {
        key: member
        for key, member in members.items()
        if inspect.getdoc(member) and not hasattr(Exception, key) and not isinstance(member, errors.MissingName)
    }


def document_class(cls: type) -> Iterator[str]:
    """Yield everything about a class whose objects a function returns: its fields, and each of its methods in full."""
    name = cls.__name__
    yield f"({name_anchor(name)})="
    yield f"### {name}"
    yield from convert_docstring(inspect.getdoc(cls) or "")
    fields = [f"| `{key}` | {text} |" for key, text in read_field_texts(cls).items()]
    if fields:
        yield "\n".join(["| field | what it is |", "| --- | --- |", *fields])
    for key, member in list_methods(cls).items():
        yield f"({name_anchor(name)}-{key.replace('_', '-')})="
        yield f"#### fast.{key}"
        signature = read_signature(member).replace("(self, /, ", "(").replace("(self, ", "(").replace("(self)", "()")
        if signature:
            yield f"```python\n{wrap_signature(f'fast.{key}{signature}')}\n```"
        yield from convert_docstring(inspect.getdoc(member) or "")


INTERNAL_MEMBERS = frozenset(["find_variant", "lines", "with_layer_note"])
"""Methods without an underscore that other modules call, not users."""


def list_methods(cls: type) -> dict[str, Any]:
    """Return the methods and properties of a class that users call, by name."""
    return {
        key: member
        for key, member in list_members(cls).items()
        if key not in INTERNAL_MEMBERS
        and (callable(member) or isinstance(member, property | functools.cached_property))
    }


def read_field_texts(cls: type) -> dict[str, str]:
    """Return the public fields of a dataclass with the texts below them, empty where there is none."""
    if not hasattr(cls, "__dataclass_fields__"):
        return {}
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    assert isinstance(definition, ast.ClassDef)
    texts: dict[str, str] = {}
    for statement, following in itertools.pairwise([*definition.body, None]):
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            is_text = isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant)
            texts[statement.target.id] = " ".join(str(following.value.value).split()) if is_text else ""
    return {name: text for name, text in texts.items() if not name.startswith("_")}


def document_methods(name: str, cls: type) -> Iterator[str]:
    """Yield a table of what a class defines itself, by one sentence each."""
    rows = [
        f"| `{key}{read_signature(member, short=True)}` | {first_sentence(member)} |"
        for key, member in list_members(cls).items()
    ]
    if rows:
        yield "\n".join([f"| of a {name} | what it does |", "| --- | --- |", *rows])


def document_module(name: str, module: ModuleType) -> Iterator[str]:
    """Yield a table of the public names of a module such as `wg.nn`."""
    rows = [
        f"| `wg.{name}.{key}{read_signature(getattr(module, key), short=True)}` | "
        f"{first_sentence(getattr(module, key))} |"
        for key in sorted(getattr(module, "__all__", []), key=str.lower)
    ]
    if rows:
        yield "\n".join(["| name | what it does |", "| --- | --- |", *rows])


def document_errors() -> Iterator[str]:
    """Yield a table of all errors."""
    classes = [
        thing
        for thing in vars(errors).values()
        if isinstance(thing, type) and issubclass(thing, errors.WiregradError) and thing is not errors.WiregradError
    ]
    rows = [
        f"| `{cls.__name__}` | {', '.join(f'`{base.__name__}`' for base in cls.__bases__)} | {first_sentence(cls)} |"
        for cls in sorted(classes, key=lambda cls: cls.__name__)
    ]
    yield "Every error is one of these classes of `wiregrad.errors`."
    yield "\n".join(["| error | also a | when |", "| --- | --- | --- |", *rows])


def read_signature(thing: Any, *, short: bool = False) -> str:
    """Return the arguments of something, without the types where it is short; nothing where it has none."""
    if isinstance(thing, property) or not callable(thing):
        return ""
    try:
        signature = inspect.signature(thing)
    except (TypeError, ValueError):
        return ""
    if short:
        names = [str(value.replace(annotation=value.empty)) for value in signature.parameters.values()]
        text = f"({', '.join(name for name in names if name != 'self')})"
        return text.replace("|", "\\|")
    plain = [value.replace(annotation=TypeText(value.annotation)) for value in signature.parameters.values()]
    return str(signature.replace(parameters=plain, return_annotation=TypeText(signature.return_annotation)))


class TypeText(str):
    """A type as text, which a signature shows without quotes."""

    __slots__ = ()

    def __new__(cls, annotation: Any) -> Any:
        """Return the text of a type that is given as a string; other types are shown well as they are."""
        return super().__new__(cls, annotation) if isinstance(annotation, str) else annotation

    def __repr__(self) -> str:
        return str(self)


def wrap_signature(text: str) -> str:
    """Return a signature with one argument to a line, where it is too long for one line."""
    if len(text) <= MAX_SIGNATURE:
        return text
    head, _, rest = text.partition("(")
    end = rest.rfind(") -> ") if ") -> " in rest else rest.rfind(")")
    # A comma inside brackets belongs to a type.
    arguments = re.split(r", (?![^\[(]*[\])])", rest[:end])
    return "\n".join([f"{head}(", *(f"    {argument}," for argument in arguments), rest[end:]])


def first_sentence(thing: Any) -> str:
    """Return the first sentence of a docstring, fit for a cell of a table."""
    paragraph = " ".join((inspect.getdoc(thing) or "").split("\n\n", 1)[0].split())
    sentence = re.split(r"(?<=[.!?]) (?=[A-Z`])", paragraph)[0]
    return escape_stars(sentence).replace("|", "\\|")


def escape_stars(text: str) -> str:
    """Return text in which `*args` outside of code is no emphasis."""
    return re.sub(r"`[^`]*`|\*", lambda match: "\\*" if match[0] == "*" else match[0], text)


def convert_docstring(text: str) -> Iterator[str]:
    """Yield the paragraphs of a docstring as Markdown: examples and indented blocks become blocks of code."""
    for block in re.split(r"\n\s*\n", text.strip("\n")):
        plain = textwrap.dedent(block)
        if plain.lstrip().startswith(">>>"):
            yield f"```python\n{plain}\n```"
        elif all(line.startswith("    ") for line in block.splitlines()):
            yield f"```text\n{plain}\n```"
        else:
            yield escape_stars(block)


def write_project_pages() -> None:
    """Write the pages of the repository that are not in this folder, with links that hold here."""
    PROJECT.mkdir(exist_ok=True)
    for name in ROOT_PAGES:
        text = (HERE.parent / f"{name}.md").read_text(encoding="utf-8")
        for other in ROOT_PAGES:
            text = text.replace(f"]({other}.md", f"]({other.lower()}.md")
        text = re.sub(r"\]\(docs/", "](../", text)
        (PROJECT / f"{name.lower()}.md").write_text(text, encoding="utf-8")
    toctree = "```{toctree}\n:glob:\n:titlesonly:\n\n../decisions/*\n```"
    decisions = join_blocks("# Decisions", "Choices that are asked about again.", toctree)
    (PROJECT / "decisions.md").write_text(decisions, encoding="utf-8")


def write_program_pages() -> None:
    """Write a page for each program of examples/: what it says about itself, its picture and its code."""
    PROGRAMS.mkdir(exist_ok=True)
    rows = []
    for path in EXAMPLE_FILES:
        source = path.read_text(encoding="utf-8")
        docstring = ast.get_docstring(ast.parse(source)) or ""
        title, _, rest = docstring.partition("\n\n")
        picture = HERE / "images" / f"science-{path.stem.replace('_', '-')}.svg"
        shown = [f"![The picture of {path.stem}](../images/{picture.name})"] if picture.is_file() else []
        # The docstring is written above the code already.
        code = source.partition('"""')[2].partition('"""')[2].strip("\n")
        blocks = [f"# {path.stem}", title, rest, *shown, f"```python\n{code}\n```"]
        (PROGRAMS / f"{path.stem}.md").write_text(join_blocks(*blocks), encoding="utf-8")
        rows.append(f"| [`{path.stem}`]({path.stem}.md) | {' '.join(title.split())} |")
    index = join_blocks(
        "# All programs",
        "The programs of `examples/`, each with its code.",
        "\n".join(["| program | what it does |", "| --- | --- |", *rows]),
        "\n".join(["```{toctree}", ":hidden:", "", *(path.stem for path in EXAMPLE_FILES), "```"]),
    )
    (PROGRAMS / "index.md").write_text(index, encoding="utf-8")


def write_playground() -> None:
    """Write the examples of the explorer, and the lessons, as pages that need no server."""
    PLAYGROUND.mkdir(parents=True, exist_ok=True)
    for example in EXAMPLES:
        run_command("explore", example, "-o", str(PLAYGROUND / f"{example}.html"))
    run_command("learn", "-o", str(PLAYGROUND / "lessons.html"))


def run_command(*words: str) -> None:
    """Run `wiregrad`, as a reader would."""
    subprocess.run([sys.executable, "-m", "wiregrad", *words], check=True, capture_output=True)


def join_blocks(*blocks: str) -> str:
    """Return Markdown with an empty line between blocks."""
    return "\n\n".join(blocks) + "\n"


def adapt_page(app: Any, page: str, source: list[str]) -> None:
    """Let links to pages and programs beside this folder lead to their pages here; end blocks without an empty line."""
    source[0] = source[0].replace("<BLANKLINE>\n", "\n")
    source[0] = re.sub(r"^(```\w+\n.*?)\n\n+```$", r"\1\n```", source[0], flags=re.MULTILINE | re.DOTALL)
    source[0] = re.sub(r"\]\(\.\./((?:\.\./)*)examples/(?:gallery/)?(\w+)\.py\)", r"](\1programs/\2.md)", source[0])
    for name in ROOT_PAGES:
        source[0] = re.sub(rf"\]\(\.\./((?:\.\./)*){name}\.md", rf"](\1project/{name.lower()}.md", source[0])


def mark_long_parts(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Mark sentences that programs print, and long cells and names of tables, so that the stylesheet can wrap them."""
    body = context.get("body", "")
    body = re.sub(r'<span class="go">([^<\n]*)</span>', lambda match: mark_printed_line(match[1], "go"), body)
    body = re.sub(
        r'(?<=<div class="highlight-text notranslate"><div class="highlight"><pre><span></span>)[^<]*',
        lambda match: "\n".join(mark_printed_line(line) for line in match[0].split("\n")),
        body,
    )
    context["body"] = re.sub(r"<table .*?</table>", mark_table, body, flags=re.DOTALL)


def mark_printed_line(line: str, role: str = "") -> str:
    """Return a printed line, in HTML, with the class `sentence` where it is one and not part of a table or drawing.

    Where a sentence follows a name and spaces, it goes on below itself.
    """
    text = html.unescape(line)
    name = re.match(r"\S+(?: \S+)*   +(?=\S)", text)
    sentence = text[name.end() :] if name else text
    is_sentence = len(re.findall(r"[a-zA-Z]{2,}", sentence)) >= 4 and not re.search(r"\S  |[─-╿]", sentence)
    classes = " ".join(part for part in [role, "sentence" if is_sentence else ""] if part)
    hang = f' style="--hang: {name.end()}ch"' if name and is_sentence else ""
    return f'<span class="{classes}"{hang}>{line}</span>' if classes else line


def mark_table(table: re.Match[str]) -> str:
    """Return a table with its long cells marked, and as `cards`, with labels, where it is too wide for a phone."""
    heads = [read_text(head) for head in re.findall(r"<th\b.*?</th>", table[0], re.DOTALL)]
    rows = [CELL.findall(row) for row in re.findall(r"<tr\b.*?</tr>", table[0], re.DOTALL)]
    long_columns = {k for row in rows for k, (_, content) in enumerate(row) if len(read_text(content)) > LONG_CELL}
    is_cards = bool(long_columns) and len(heads) > 2
    labels = {k: head for k, head in enumerate(heads) if is_cards and k > 0 and k not in long_columns}

    def mark_row(row: re.Match[str]) -> str:
        columns = itertools.count()
        return CELL.sub(lambda cell: mark_cell(*cell.groups(), labels.get(next(columns), "")), row[0])

    text = re.sub(r"<tr\b.*?</tr>", mark_row, table[0], flags=re.DOTALL)
    return text.replace('<table class="', '<table class="cards ', 1) if is_cards else text


def mark_cell(classes: str | None, content: str, label: str) -> str:
    """Return a cell of a table, marked where its text is long, with its label and places to break long names."""
    names = " ".join(part for part in [classes, "long" if len(read_text(content)) > LONG_CELL else ""] if part)
    attributes = {"class": names, "data-label": html.escape(label if read_text(content) else "")}
    written = "".join(f' {name}="{value}"' for name, value in attributes.items() if value)
    breakable = re.sub(
        r'(?<=<span class="pre">)[\w.]{28,}(?=</span>)', lambda name: re.sub(r"(?<=[._])", "<wbr>", name[0]), content
    )
    return f"<td{written}>{breakable}</td>"


def read_text(markup: str) -> str:
    """Return the text of a piece of HTML."""
    return html.unescape(re.sub(r"<[^>]*>", "", markup)).strip()


class LightCode(Style):
    """Code without colour on light paper: colour is for gradients."""

    background_color = "#FFFFFF"
    styles = {  # noqa: RUF012 (Pygments reads it so)
        Token: "#15171C",
        Keyword: "bold",
        Name.Function: "bold",
        Name.Class: "bold",
        Comment: "italic #6B717B",
        String: "#555A63",
        Generic.Prompt: "#6B717B",
        Generic.Output: "#555A63",
    }


class DarkCode(Style):
    """Code without colour on dark paper."""

    background_color = "#1D2026"
    styles = {  # noqa: RUF012 (Pygments reads it so)
        Token: "#F1F2F4",
        Keyword: "bold",
        Name.Function: "bold",
        Name.Class: "bold",
        Comment: "italic #8F949B",
        String: "#B4B9C2",
        Generic.Prompt: "#8F949B",
        Generic.Output: "#B4B9C2",
    }


def prepare_site(app: Any) -> None:
    """Write what the site derives, before its pages are read."""
    write_reference()
    write_project_pages()
    write_program_pages()
    write_playground()


def setup(app: Any) -> dict[str, bool]:
    """Connect this module to Sphinx."""
    app.connect("builder-inited", prepare_site)
    app.connect("source-read", adapt_page)
    app.connect("html-page-context", mark_long_parts)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
