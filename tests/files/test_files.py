"""Circuit files: written, read back, and refused clearly."""

from __future__ import annotations

import errno
import json
import os
import random
import stat
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
import safetensors.numpy

import wiregrad as wg
from wiregrad.dtypes import DTYPES, FLOAT, WireType
from wiregrad.errors import FileAccessError, FileFormatError, TextError
from wiregrad.files import load, parse_json, save, write_json
from wiregrad.ir import TABLE, Certificate, CircuitRecording, Place, text_form
from wiregrad.ir.columns import Convention, encode_mode
from wiregrad.ir.text_form import write_elements
from wiregrad.ops.array_ops import ArrayOp, _infer_from_shortened, _stand_in

from ..support.limits import PATIENCE
from ..support.random_circuits import random_circuit, random_point
from ..support.random_programs import random_program

ROOT = Path(__file__).parents[2]
GOLDEN = Path(__file__).parent / "golden"
SCHEMA = jsonschema.Draft202012Validator(json.loads((ROOT / "docs" / "circuit.schema.json").read_text()))

EXPRESSION = """\
{
"format": "wiregrad-circuit",
"version": 1,
"name": "f",
"nodes": [
{"op": "input", "names": ["a"]},
{"op": "input", "names": ["b"]},
{"op": "input", "names": ["c"]},
{"op": "add", "inputs": [0, 1], "names": ["e"], "place": ["formula", 1, 5]},
{"op": "multiply", "inputs": [3, 2], "names": ["f"], "place": ["formula", 1, 16]}
],
"outputs": [
{"name": "f", "node": 4}
]
}
"""


def everything() -> wg.Circuit:
    """Return a circuit with something in every column: each dtype, settings, kinks, names, places, groups, outcomes."""
    recording = CircuitRecording()
    odd = np.array([0x7FF8000000000001, 0xFFF8000000000000, 0x3FF0000000000000], np.uint64).view(np.float64)
    samples = [1.0, -0.0, np.nan, np.inf, 0.1]
    x = recording.append_input("x", FLOAT)
    rows = recording.append_input("layers[0].w", WireType(np.dtype("float32"), (2, 3)))
    for dtype in DTYPES.values():
        with np.errstate(invalid="ignore"):
            array = np.array([samples, samples[::-1]]).astype(dtype)
        recording.append_constant(array)
        recording.append_constant(array[0, 0])
        recording.append_constant(array[:0])
    recording.append_constant(odd)
    recording.append_constant(np.array([complex(np.nan, -0.0), complex(-np.inf, 1e-320)]))
    recording.move_to(Place('odd "file"\n: 3.py', 7, 2), "net/layer 1")
    top = recording.append_op(TABLE["maximum"], [x, x], FLOAT, encode_mode(Convention.TORCH, [1]))
    recording.add_name(top, "first")
    recording.add_name(top, "µ.second[3]")
    recording.move_to(Place("C:\\code\\näher.py", 12), "")
    total = TABLE["sum"].bind({"axes": (-1,), "keepdims": False})
    summed = recording.append_op(total, [rows], WireType(np.dtype("float32"), (2,)))
    part = TABLE["getitem"].bind({"index": (("slice", None, None, -1),)})
    recording.append_op(part, [summed], WireType(np.dtype("float32"), (2,)))
    wide = TABLE["pinv"].bind({"rcond": np.inf})
    recording.append_op(wide, [rows], WireType(np.dtype("float32"), (3, 2)))
    recording.certificates = [
        Certificate(top, outcome, place)
        for outcome, place in [
            (True, Place("model.py", 3)),
            (3, None),
            (2.5, None),
            (float("nan"), None),
            (1 + 2j, Place("model.py", 4, 9)),
            (-0.0, None),
            (float("-inf"), None),
            (odd[0].item(), None),
            (np.float32(0.1), None),
            (np.array([[1.0, -np.inf]], np.float32), None),
            (np.array([1j, complex(np.nan, -0.0)]), None),
            (np.array([], np.int64), None),
            (np.array([True]), None),
        ]
    ]
    return wg.Circuit(recording.freeze({"top": top, "again": top, "summed": summed}, "whole").columns)


def copies(circuit: wg.Circuit, folder: Path) -> list[wg.Circuit]:
    """Return the circuit after a trip through JSON, through a file and through text."""
    path = folder / "circuit.wg"
    save(circuit, path)
    found = [parse_json(write_json(circuit)), load(path)]
    return [*(wg.Circuit(copy.columns) for copy in found), wg.Circuit.from_text(circuit.to_text())]


def same_bits(a: Any, b: Any) -> bool:
    return np.array_equal(np.asarray(a), np.asarray(b), equal_nan=True)


def test_the_json_of_the_expression() -> None:
    circuit = wg.circuit("e = a + b; f = e * c")

    assert write_json(circuit) == EXPRESSION
    assert parse_json(EXPRESSION) == circuit
    assert parse_json(EXPRESSION.encode()) == circuit


def test_every_form_holds_everything_a_circuit_can_hold(tmp_path: Path) -> None:
    circuit = everything()

    for copy in copies(circuit, tmp_path):
        assert copy == circuit
        assert [c.tobytes() for c in copy.columns.constants] == [c.tobytes() for c in circuit.columns.constants]
        assert [type(c.outcome) for c in copy.certificates] == [type(c.outcome) for c in circuit.certificates]
        assert [np.asarray(c.outcome).tobytes() for c in copy.certificates if type(c.outcome) is not int] == [
            np.asarray(c.outcome).tobytes() for c in circuit.certificates if type(c.outcome) is not int
        ]
        assert [copy.type_of(k) for k in range(copy.size)] == [circuit.type_of(k) for k in range(circuit.size)]


def test_a_whole_number_too_long_for_a_wire_may_steer_python() -> None:
    circuit = wg.trace(lambda x: x * 2.0 if int(x.item()) > 3 else x, 1e300)
    long = circuit.columns.certificates[0]._replace(outcome=int(1e300))
    circuit = wg.Circuit(replace(circuit.columns, certificates=(long,)))

    assert parse_json(write_json(circuit)).certificates == (long,)
    assert wg.Circuit.from_text(circuit.to_text()).certificates == (long,)


@pytest.mark.parametrize("form", ["json", "text"])
@pytest.mark.parametrize("outcome", [10**400, -(10**4000), "text", None, np.array(["a"])])
def test_what_could_not_be_read_back_is_not_written(outcome: Any, form: str) -> None:
    circuit = wg.circuit("y = exp(x)")
    circuit = wg.Circuit(replace(circuit.columns, certificates=(Certificate(0, outcome, None),)))

    with pytest.raises(FileFormatError, match="cannot be stored as text or in a file"):
        getattr(circuit, f"to_{form}")()


def test_a_certificate_of_every_kind_survives_tracing_and_text() -> None:
    def steered(z: Any, x: Any) -> Any:
        return np.sum(np.abs(z * z[1].item())) + np.sum(x.data) * np.sum(x)

    circuit = wg.trace(steered, np.array([1 + 1j, 2j]), np.array([1.5, -2.0], np.float32))

    assert len(circuit.certificates) > 1
    assert wg.Circuit.from_text(circuit.to_text()) == circuit


def assert_copies_agree(circuit: wg.Circuit, point: dict[str, Any], folder: Path) -> None:
    """Check that a circuit comes back from every form with the same values and gradients, bit for bit."""
    run = circuit.run(**point)
    for copy in copies(circuit, folder):
        again = copy.run(**point)

        assert copy == circuit
        assert same_bits(again.output, run.output)
        assert all(same_bits(again.grads[name], run.grads[name]) for name in run.grads)


@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.full)])
def test_random_circuits_come_back_equal_with_equal_values_and_gradients(whole: bool, tmp_path: Path) -> None:
    for k in range(1000 if whole else 40):
        rng = np.random.default_rng([17, k])
        circuit = random_circuit(rng, nodes=int(rng.integers(1, 25)))
        point = random_point(rng, circuit)
        assert_copies_agree(circuit, point, tmp_path)


@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.full)])
def test_traced_programs_come_back_equal_with_equal_values_and_gradients(whole: bool, tmp_path: Path) -> None:
    for seed in range(1000 if whole else 20):
        program = random_program(seed)
        circuit = wg.trace(program.make_function(wiregrad=wg), *program.inputs.values())
        point = dict(zip(circuit.inputs, program.inputs.values(), strict=True))
        assert_copies_agree(circuit, point, tmp_path)


def test_documents_fit_the_published_schema() -> None:
    circuits = [everything(), *(random_circuit(np.random.default_rng([5, k])) for k in range(20))]
    programs = [random_program(seed) for seed in range(20)]
    circuits += [wg.trace(p.make_function(wiregrad=wg), *p.inputs.values()) for p in programs]
    for circuit in circuits:
        tensors: dict[str, Any] = {}

        SCHEMA.validate(json.loads(write_json(circuit)))
        SCHEMA.validate(json.loads(write_json(circuit, tensors)))


@pytest.mark.parametrize("ending", ["json", "wg"])
def test_files_of_version_1_stay_readable(ending: str) -> None:
    path = GOLDEN / f"version-1.{ending}"
    circuit = load(path) if ending == "wg" else parse_json(path.read_bytes())
    point = {"x": 2.0, "w": np.array([[1.0, 2.0, 3.0], [0.0, -1.0, 0.5]], np.float32)}
    # What steered it is made up, and holds nowhere.
    run = wg.Circuit(circuit.columns).run(point, check=False)

    assert circuit == wg.Circuit.from_text((GOLDEN / "version-1.txt").read_text())
    assert run.output == 11.0
    assert run.grads["x"] == 5.5


def document(**changes: Any) -> dict[str, Any]:
    """Return a document of two nodes and a constant, with some fields changed."""
    found = json.loads(write_json(wg.circuit("f = maximum(x * 2, 0)")))
    return {key: value for key, value in {**found, **changes}.items() if value is not ...}


def with_node(index: int, **changes: Any) -> dict[str, Any]:
    found = document()
    node = {**found["nodes"][index], **changes}
    found["nodes"][index] = {key: value for key, value in node.items() if value is not ...}
    return found


def nested(value: Any, levels: int) -> Any:
    """Return a value inside as many lists."""
    for _ in range(levels):
        value = [value]
    return value


LONG = "[0,999999999,999999999,999999999]"
"""A shape without elements, which NumPy refuses all the same."""
SUM = {"axes": [-1], "keepdims": False}
WRONG: list[tuple[Any, str]] = [
    ([], "not a circuit: wanted an object"),
    ({"format": "other"}, "got 'other'"),
    (document(version=2), "version 2 of the circuit format is not supported .* newer wiregrad"),
    (document(version="1"), "version '1'"),
    (document(version=True), "version True"),
    (document(version=...), "version None"),
    (document(extra=1), "the document has an unknown field 'extra'"),
    (document(node=[]), "unknown field 'node'; did you mean nodes"),
    (document(name=...), "the document has no field 'name'"),
    (document(name="1x"), "cannot be a name"),
    (document(nodes=[], outputs=[]), "at least one node"),
    (document(nodes=[]), "output 0 is node 4, but there are 0 nodes"),
    (document(outputs=[]), "at least one node and one output"),
    (document(outputs=[{"name": "f", "node": 99}]), "output 0 is node 99, but there are 5 nodes, counted from 0"),
    (document(outputs=[{"name": "f", "node": 4}] * 2), "two outputs have the same name"),
    (document(outputs=[{"name": "x", "node": 4}]), "output x is not the node called x"),
    (with_node(2, inputs=[0, 4]), r"node 2 \(multiply\): it reads node 4: a node reads only nodes that come before"),
    (with_node(2, inputs=[0, 2]), "it reads node 2"),
    (with_node(2, inputs=[0, -1]), "it reads node -1"),
    (with_node(2, inputs=[0, True]), "it reads True"),
    (with_node(2, inputs=[0, 1.0]), "it reads 1.0"),
    (with_node(2, inputs=[0]), "multiply takes 2 wires"),
    (with_node(2, inputs="01"), "inputs must be a list"),
    (with_node(2, type="float64[3]"), r"stated type is float64\[3\], but its op gives float64"),
    (with_node(2, type="float128"), "wanted a type"),
    (with_node(2, op="multiplyy"), "no op called 'multiplyy'; did you mean multiply"),
    (with_node(2, op="__class__"), "no op called"),
    (with_node(2, op=3), "the name of an op; got 3"),
    (with_node(2, settings={"out": 1}), "multiply has no setting 'out'; it has none"),
    (with_node(2, value=1), "unknown field 'value'"),
    (with_node(2, kink="torch"), "an op that has kinks"),
    (with_node(4, kink="sideways"), "wanted 'CONVENTION:INPUTS'"),
    (with_node(4, names=["x"]), "the name x is taken already"),
    (with_node(4, names=["a b"]), "cannot be a name"),
    (with_node(4, place=["f", 0]), "a place is"),
    (with_node(4, place="f:1"), "a place is"),
    (with_node(4, group="\ud800"), "surrogate"),
    (with_node(0, names=[]), "every input needs a name"),
    (with_node(0, inputs=[]), "unknown field 'inputs'"),
    (with_node(1, value=...), 'either a "value" or a "tensor"'),
    (with_node(1, value="NaN"), "wanted a number, 'nan'"),
    (with_node(1, value=None), "wanted a number"),
    (with_node(1, value=[1, 2]), "wanted a number"),
    (with_node(1, value=[1, 2], type="float64[3]"), "wanted 3 elements along axis 0"),
    (with_node(1, value=[[1], [2, 3]], type="float64[2,1]"), "got a list of 2"),
    (with_node(1, value=1.5, type="int64"), "wanted a whole number"),
    (with_node(1, value=2**63, type="int64"), "wanted a whole number"),
    (with_node(1, value=1, type="bool"), "wanted true or false"),
    (with_node(1, value=1e300, type="float32"), "larger than any float32"),
    (with_node(1, value="nan:3ff0000000000000"), "are not a NaN"),
    (with_node(1, value=..., tensor="w"), "the tensor 'w' is not in the file"),
    (with_node(2, op="sum", inputs=[0], settings=SUM), "sum cannot take float64"),
    (with_node(2, op="sum", inputs=[0]), "sum needs the setting axes"),
    (with_node(2, op="sum", inputs=[0], settings={**SUM, "where": True}), "has no setting 'where'"),
    (with_node(2, op="sum", inputs=[0], settings={**SUM, "axes": {"a": 1}}), "numbers, words and lists"),
    (with_node(2, op="sum", inputs=[0], settings={**SUM, "axes": [[[[[[1]]]]]]}), "levels of lists"),
    (with_node(2, op="cast", inputs=[0], settings={"dtype": "V1000000000"}), "wires do not support this dtype"),
    (document(steered=[{"node": 9, "type": "bool", "value": True}]), "entry 0 of steered is node 9"),
    (document(steered=[{"node": 0, "type": "integer", "value": "x"}]), "steered: .*string of at most 400 digits"),
    (document(steered=[{"node": 0, "type": "integer", "value": 3}]), "string of at most 400 digits"),
    (document(steered=[{"node": 0, "type": "float64" + LONG, "value": []}]), "wanted a type"),
    (with_node(1, value=[], type="float64" + LONG), "wanted a type"),
    (with_node(0, type="float32" + LONG), "wanted a type"),
    (with_node(0, type=f"float64[{','.join(['1'] * 65)}]"), "wanted a type"),
    (with_node(1, value=nested([1, 2], 64), type=f"complex128[{','.join(['1'] * 64)}]"), "at most 63 axes; got 64"),
]


@pytest.mark.parametrize(("wrong", "message"), WRONG)
def test_a_document_that_is_no_circuit_says_what_and_where(wrong: Any, message: str) -> None:
    with pytest.raises(FileFormatError, match=message):
        parse_json(json.dumps(wrong))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not JSON: the text is empty"),
        (" \n", "not JSON: the text is empty"),
        ("nothing", "not JSON: Expecting value at line 1, column 1"),
        ("{", "not JSON"),
        (EXPRESSION[:200], "not JSON"),
        (b"\xff\xfe", "not UTF-8"),
        (b"{\0\0", "not JSON"),
        (EXPRESSION.encode("utf-16-le"), "not JSON"),
        ("\ud800", "not UTF-8"),
        (EXPRESSION.replace('"version": 1', '"version": 1, "version": 1'), "the key 'version' appears twice"),
        (EXPRESSION.replace('"op": "add"', '"op": "add", "op": "add"'), "the key 'op' appears twice"),
        (EXPRESSION.replace("[0, 1]", "[0, " + "1" * 100_000 + "]"), "an integer has 100,000 digits"),
        (EXPRESSION.replace("[0, 1]", "[0, 1e999]"), "larger than any float64"),
        (EXPRESSION.replace("[0, 1]", "[0, NaN]"), "NaN is not JSON; write the string 'nan'"),
        ("[" * 100_000, "nested deeper than the limit of 80 levels"),
        ('{"a":' * 100_000, "nested deeper than the limit of 80 levels"),
        ("[" * 81 + "]" * 81, "nested deeper than the limit of 80 levels"),
        ('"' + "[" * 100_000, "not JSON"),
        (7, "wanted JSON as a string or bytes; got int"),
    ],
)
def test_a_text_that_is_no_strict_json_is_refused(text: Any, message: str) -> None:
    with pytest.raises(FileFormatError, match=message):
        parse_json(text)


def test_brackets_are_counted_outside_strings_in_blocks_of_any_length(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(0)
    strings = ['"[["', '"]"', r'"[\\"', r'"\"["', r'"[\\\"]"']
    monkeypatch.setattr(text_form, "MAX_JSON_DEPTH", 3)
    refused = 0
    for _ in range(1000):
        pieces = rng.choices(["[", "]", *strings], [4, 3, 1, 1, 1, 1, 1], k=rng.randrange(20))
        depth = max(accumulate(({"[": 1, "]": -1}.get(piece, 0) for piece in pieces), initial=0))
        monkeypatch.setattr(text_form, "_BLOCK_BYTES", rng.randrange(1, 10))
        refused += depth > 3
        with pytest.raises(FileFormatError, match="deeper than the limit of 3") if depth > 3 else nullcontext():
            text_form.check_json_size("".join(pieces).encode())

    assert refused > 50


def test_counting_brackets_takes_little_room() -> None:
    data = b'[],"",' * 2_000_000
    tracemalloc.start()
    text_form.check_json_size(data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert peak < len(data)


@pytest.mark.parametrize("item", ["[],", "{},", "1,"])
def test_more_items_than_fit_into_memory_are_refused_before_they_are_read(
    item: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_form, "MAX_JSON_ITEMS", 1000)

    with pytest.raises(FileFormatError, match="more than 1,000 lists, objects and commas"):
        text_form.read_strict_json("[" + item * 1000 + "1]")
    with pytest.raises(TextError, match="line 2: there are more than 1,000 lists, objects and commas"):
        wg.Circuit.from_text(f"input x\ny = constant float64[9] [{item * 1000}1]\noutput x")


def test_a_byte_order_mark_before_json_is_passed_over() -> None:
    assert (
        parse_json(b"\xef\xbb\xbf" + EXPRESSION.encode()) == parse_json("\ufeff" + EXPRESSION) == parse_json(EXPRESSION)
    )


def test_the_sign_of_a_whole_zero_is_kept() -> None:
    found = parse_json(json.dumps(with_node(1, value=0)).replace('"value": 0', '"value": -0'))

    assert np.signbit(found.columns.constants[0])
    with pytest.raises(FileFormatError, match="wanted a whole number"):
        parse_json(json.dumps(with_node(1, value=0, type="int64")).replace('"value": 0', '"value": -0'))


def test_json_shows_letters_that_do_not_print_as_numbers() -> None:
    b = wg.Builder()
    x = b.input("x")
    with b.at(Place("\x1b[31m\x9b\u202e\U000e0001.py", 1)):
        circuit = b.build(b.exp(x))
    text = write_json(circuit)

    assert text.replace("\n", "").isprintable()
    assert parse_json(text) == circuit


def test_complex_numbers_of_all_axes_there_can_be_are_refused_clearly() -> None:
    with pytest.raises(FileFormatError, match="drop an axis"):
        write_elements(np.ones((1,) * 64, complex))


def test_names_are_read_in_their_normal_form() -> None:
    circuit = parse_json(EXPRESSION.replace('"f"', '"\u00b5"'))

    assert circuit.name == circuit.outputs[0] == circuit.name_of(4) == "\u03bc"


def test_brackets_in_strings_do_not_count_as_nesting() -> None:
    text = EXPRESSION.replace('"formula"', json.dumps('"' + "[{" * 500 + "\\"))

    assert parse_json(text).columns.places.label_of(3).file == '"' + "[{" * 500 + "\\"


def test_a_user_function_cannot_be_written() -> None:
    class Twice(wg.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return 2.0 * x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return 2.0 * g

    circuit = wg.trace(lambda x: Twice.apply(x) * 2.0, 3.0)
    with pytest.raises(FileFormatError, match="a user's Python function, which cannot be stored in a file"):
        write_json(circuit)


def test_a_place_without_a_unicode_form_cannot_be_written() -> None:
    b = wg.Builder()
    x = b.input("x")
    with b.at(Place("\udc80.py", 1)):
        circuit = b.build(b.exp(x))

    with pytest.raises(FileFormatError, match="surrogate"):
        write_json(circuit)


def test_other_tools_see_the_tensors_of_a_file(tmp_path: Path) -> None:
    circuit = everything()
    save(circuit, tmp_path / "a.wg")
    tensors = safetensors.numpy.load_file(tmp_path / "a.wg")
    node = int(circuit.columns.constant_nodes[0])

    assert json.loads(tensors["circuit"].tobytes())["name"] == "whole"
    assert tensors[f"constant.{node}"].tobytes() == circuit.columns.constants[0].tobytes()


def test_a_file_that_safetensors_wrote_is_read(tmp_path: Path) -> None:
    circuit = everything()
    save(circuit, tmp_path / "a.wg")
    tensors = safetensors.numpy.load_file(tmp_path / "a.wg")
    safetensors.numpy.save_file(tensors, tmp_path / "b.wg", {"format": "wiregrad-circuit", "version": "1"})

    assert load(tmp_path / "b.wg") == circuit


def test_paths_are_strings_or_path_objects(tmp_path: Path) -> None:
    circuit = wg.circuit("y = exp(x)")
    save(circuit, str(tmp_path / "a.wg"))

    assert load(tmp_path / "a.wg") == load(str(tmp_path / "a.wg")) == circuit
    with pytest.raises(FileAccessError, match="a path is a string"):
        save(circuit, 3)  # type: ignore[arg-type]
    with pytest.raises(FileAccessError, match="no file can be called"):
        load("a\0b")
    with pytest.raises(FileAccessError, match="cannot read"):
        load("\ud800.wg")


def test_a_file_replaces_the_one_a_link_points_to_and_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "real.wg").write_bytes(b"old")
    (tmp_path / "real.wg").chmod(0o640)
    (tmp_path / "link.wg").symlink_to("real.wg")
    save(wg.circuit("y = exp(x)"), tmp_path / "link.wg")

    assert (tmp_path / "link.wg").is_symlink()
    assert load(tmp_path / "real.wg") == wg.circuit("y = exp(x)")
    assert (tmp_path / "real.wg").stat().st_mode & 0o777 == 0o640


def save_exponential(path: Path) -> None:
    save(wg.circuit("y = exp(x)"), path)


@pytest.mark.parametrize(
    ("action", "path", "message"),
    [
        (load, "none.wg", "there is no such file"),
        (load, "", "it is a folder"),
        (save_exponential, "", "it is a folder"),
        (save_exponential, "none/a.wg", "there is no such folder"),
        (load, "file/a.wg", "part of the path is a file"),
        (save_exponential, "a" * 300, "File name too long"),
    ],
)
def test_a_path_that_cannot_be_used_says_why(
    action: Callable[[Path], object], path: str, message: str, tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(FileAccessError, match=message) as caught:
        action(tmp_path / path)

    assert isinstance(caught.value, OSError)
    assert caught.value.errno


@pytest.mark.parametrize("path", ["/dev/null", "pipe.wg"])
def test_a_device_or_a_pipe_is_not_read(path: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.wg")
    with pytest.raises(FileFormatError, match="a device or a pipe"):
        load(tmp_path / path)


@pytest.mark.parametrize("mode", [0o600, 0o644, None])
def test_nobody_can_read_a_file_before_it_has_its_mode(
    mode: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, seen = tmp_path / "a.wg", []
    if mode is not None:
        path.touch()
        path.chmod(mode)
    monkeypatch.setattr(os, "fsync", lambda number: seen.append(os.fstat(number).st_mode))
    (tmp_path / "usual").touch()
    usual = (tmp_path / "usual").stat().st_mode & 0o777
    save(wg.circuit("y = exp(x)"), path)

    assert [stat.S_IMODE(mode) for mode in seen if stat.S_ISREG(mode)] == [0o600]
    assert [stat.S_ISDIR(mode) for mode in seen] == [False, True]
    assert path.stat().st_mode & 0o777 == (usual if mode is None else mode)


@pytest.mark.parametrize("failing", ["write", "fsync", "replace"])
def test_a_failure_leaves_the_old_file_and_nothing_else(
    failing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.wg"
    save(wg.circuit("y = exp(x)"), path)

    def full(*_: Any) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")

    if failing == "write":
        opened = os.fdopen
        monkeypatch.setattr(os, "fdopen", lambda *args: _Full(opened(*args)))
    else:
        monkeypatch.setattr(*((os, "fsync") if failing == "fsync" else (Path, "replace")), full)
    with pytest.raises(FileAccessError, match=r"cannot write .*: No space left on device") as caught:
        save(wg.circuit("z = sin(x)"), path)
    monkeypatch.undo()

    assert caught.value.errno == errno.ENOSPC
    assert load(path) == wg.circuit("y = exp(x)")
    assert [p.name for p in tmp_path.iterdir()] == ["a.wg"]


class _Full:
    """A file on a disk that is full after ten bytes."""

    def __init__(self, file: Any) -> None:
        self.file, self.left = file, 10

    def __enter__(self) -> _Full:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()

    def write(self, data: Any) -> int:
        self.left -= len(data)
        if self.left < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return int(self.file.write(data))


def saved(circuit: wg.Circuit, folder: Path) -> tuple[dict[str, Any], bytes]:
    """Return the header and the data of a circuit's file."""
    save(circuit, folder / "seed.wg")
    data = (folder / "seed.wg").read_bytes()
    length = int.from_bytes(data[:8], "little")
    return json.loads(data[8 : 8 + length]), data[8 + length :]


def packed(header: dict[str, Any], body: bytes) -> bytes:
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + body


EMPTY = {"dtype": "F64", "shape": [0, 2**62], "data_offsets": [0, 0]}


def mended(**changes: Any) -> Callable[[dict[str, Any]], None]:
    """Return what changes fields of the first tensor."""

    def change(header: dict[str, Any]) -> None:
        header["constant.2"].update(changes)

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda h: h.pop("__metadata__"), "not of a circuit"),
        (lambda h: h["__metadata__"].update(version="9"), "version 9 of the circuit format .* newer wiregrad"),
        (lambda h: h["__metadata__"].update(version="x"), "version 'x' of the circuit format is not supported"),
        (lambda h: h["__metadata__"].update(author="me"), "its metadata must have format and version"),
        (lambda h: h.update(circuit=7), "expected dtype, shape and data_offsets"),
        (lambda h: h.update(more={**h["constant.2"], "data_offsets": [0, 24]}), "begins at byte 0"),
        (mended(dtype="BF16"), "its dtype must be one of"),
        (mended(dtype="F32"), "24 bytes do not fill it"),
        (mended(shape=[2**40, 2**40]), "do not fill it"),
        (mended(shape=[-3]), "must be lists of lengths"),
        (mended(shape=[1, 3]), r"stated type is float64\[3\], but the tensor constant.2 is float64\[1,3\]"),
        (mended(dtype="I64"), r"the tensor constant.2 is int64\[3\]"),
        (mended(data_offsets=[0, 2**62]), "do not fill it"),
        (mended(extra=1), "expected dtype, shape and data_offsets"),
        (lambda h: h.update(more=EMPTY), "tensor 'more': no array has the shape"),
        (lambda h: h.update(more={**EMPTY, "shape": [0] * 65}), "must be lists of lengths"),
    ],
)
def test_a_header_that_lies_is_refused(change: Callable[[Any], Any], message: str, tmp_path: Path) -> None:
    circuit = wg.trace(lambda x: np.sum(x * np.array([1.0, 2.0, 3.0])), 2.0)
    header, body = saved(circuit, tmp_path)
    change(header)
    (tmp_path / "a.wg").write_bytes(packed(header, body))

    with pytest.raises(FileFormatError, match=message):
        load(tmp_path / "a.wg")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "empty or cut off"),
        (b"PK\x03\x04" + bytes(100), "not a safetensors file"),
        (EXPRESSION.encode(), "it looks like JSON: rename it to .json"),
        ((2**63).to_bytes(8, "little") + b"{}", "not a safetensors file"),
        ((100).to_bytes(8, "little") + b"{}", "cut off"),
        (packed({}, b""), "not of a circuit"),
        (packed({"__metadata__": {"format": "wiregrad-circuit", "version": "1"}}, b""), "has no tensor 'circuit'"),
    ],
)
def test_a_file_of_another_kind_is_refused(data: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "a.wg").write_bytes(data)

    with pytest.raises(FileFormatError, match=message):
        load(tmp_path / "a.wg")


def test_a_file_that_is_cut_off_anywhere_is_refused(tmp_path: Path) -> None:
    save(wg.trace(lambda x: np.sum(x * np.arange(3.0)), 2.0), tmp_path / "a.wg")
    data = (tmp_path / "a.wg").read_bytes()
    for end in range(len(data)):
        (tmp_path / "b.wg").write_bytes(data[:end])
        with pytest.raises(FileFormatError, match=r"b\.wg cannot be read as a circuit"):
            load(tmp_path / "b.wg")
    (tmp_path / "b.wg").write_bytes(data + b" ")

    with pytest.raises(FileFormatError, match="too long"):
        load(tmp_path / "b.wg")


def test_a_tensor_that_no_node_reads_is_refused(tmp_path: Path) -> None:
    header, body = saved(wg.circuit("y = exp(x)"), tmp_path)
    header["spare"] = {"dtype": "U8", "shape": [3], "data_offsets": [len(body), len(body) + 3]}
    (tmp_path / "a.wg").write_bytes(packed(header, body + b"abc"))

    with pytest.raises(FileFormatError, match="the tensor 'spare' belongs to no node"):
        load(tmp_path / "a.wg")


def test_a_byte_that_is_no_bool_is_refused(tmp_path: Path) -> None:
    circuit = wg.trace(lambda x: np.sum(np.where(np.array([True, False]), x, 0.0)), 2.0)
    header, body = saved(circuit, tmp_path)
    start = next(entry for name, entry in header.items() if entry.get("dtype") == "BOOL")["data_offsets"][0]
    (tmp_path / "a.wg").write_bytes(packed(header, body[:start] + b"\x02" + body[start + 1 :]))

    with pytest.raises(FileFormatError, match="neither 0 nor 1"):
        load(tmp_path / "a.wg")


def test_large_arrays_are_saved_and_loaded_without_filling_others(tmp_path: Path) -> None:
    recording = CircuitRecording()
    kind = WireType(np.dtype("float32"), (5000, 5000))
    x = recording.append_input("x", WireType(np.dtype("float32"), (64, 5000)))
    w = recording.append_input("w", kind)
    y = recording.append_op(TABLE["matmul"], [x, w], WireType(np.dtype("float32"), (64, 5000)))
    turned = recording.append_op(TABLE["permute"].bind({"axes": (-1, -2)}), [w], kind)
    total = TABLE["sum"].bind({"axes": (-2,), "keepdims": True})
    s = recording.append_op(total, [turned], WireType(np.dtype("float32"), (1, 5000)))
    circuit = recording.freeze({"y": y, "s": s}, "net")
    save(circuit, tmp_path / "a.wg")

    assert load(tmp_path / "a.wg") == circuit


def test_types_of_large_arrays_are_those_that_numpy_finds_for_small_ones() -> None:
    """What is read off stand-ins equals what the op makes, at every sample of every op that can be read so."""
    TABLE.load_deferred()
    count = 0
    for op in [op for op in TABLE if isinstance(op, ArrayOp) and op.samples and type(op).infer is ArrayOp.infer]:
        for *xs, settings in op.samples(np.random.default_rng(0)):
            bound = op.bind(settings) if settings else op
            types = [WireType(np.asarray(x).dtype, np.shape(x)) for x in xs]
            if not any(0 in kind.shape for kind in types):
                found = _infer_from_shortened(bound, types, _stand_in)
                count += found is not None

                assert found in (None, bound.infer(tuple(types)))

    assert count > 100


BOMBS = Path(__file__).parent / "golden" / "bombs.txt"


def test_a_short_text_cannot_ask_for_much_room_or_time() -> None:
    """Each line of the file is a circuit of a few letters; the process that reads them may use 1 GiB more."""
    code = """
import resource, sys, time
import numpy as np, wiregrad as wg
from wiregrad.ir import parse_text
wg.ops.TABLE.load_deferred()
np.linalg.svd(np.eye(3))
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 2**30, used + 2**30))
for line in open(sys.argv[1]):
    start = time.process_time()
    try:
        parse_text(line.replace(";", "\\n"))
        found = "read"
    except wg.WiregradError as error:
        found = type(error).__name__
    print(found, round(time.process_time() - start, 2))
"""
    done = subprocess.run(
        [sys.executable, "-c", code, BOMBS], capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    rows = [line.split() for line in done.stdout.splitlines()]

    assert done.stderr == ""
    assert len(rows) == len(BOMBS.read_text().splitlines())
    assert all(float(seconds) < 20 for _, seconds in rows)
