"""ONNX files read as circuits: nodes against onnxruntime, whole models, and files that nobody vouches for."""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import wiregrad as wg
from tests.support.sampling import choose_count
from wiregrad.errors import (
    FileAccessError,
    FileFormatError,
    InputError,
    NoRuleError,
    ShapeError,
    UnknownOpsError,
    WiregradError,
)
from wiregrad.exchange import onnx_files
from wiregrad.exchange.onnx_files import NODE_RULES, SAME_OPS

RNG = np.random.default_rng(5)
X = RNG.normal(size=(2, 3, 6, 6)).astype(np.float32)
M = RNG.normal(size=(4, 3)).astype(np.float32)
P = RNG.uniform(0.2, 0.9, size=(4, 3)).astype(np.float32)
W = RNG.normal(size=(4, 3, 3, 3)).astype(np.float32)
V3 = RNG.uniform(0.5, 1.5, size=3).astype(np.float32)


def ints(*values: int) -> Any:
    return np.array(values, np.int64)


def make_model(
    nodes: Sequence[Any], inputs: dict[str, Any], stored: dict[str, Any], outputs: Sequence[str], opset: int = 18
) -> Any:
    described = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.asarray(x).dtype), np.shape(x))
        for name, x in inputs.items()
    ]
    graph = helper.make_graph(
        list(nodes),
        "model",
        described,
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [numpy_helper.from_array(np.asarray(x), name) for name, x in stored.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    model.ir_version = 8
    return onnx.shape_inference.infer_shapes(model)


UNARY = (
    "Abs Neg Exp Sin Cos Tan Sinh Cosh Tanh Atan Asinh Erf Sigmoid Softplus Relu Floor Ceil Round Sign IsNaN IsInf Elu "
    "Selu Celu Softsign HardSigmoid HardSwish Mish LeakyRelu Softmax LogSoftmax Identity Shape Size Flatten Transpose "
    "ReduceSum ReduceMean ReduceMax ReduceMin ReduceL1 ReduceL2 ReduceSumSquare ReduceLogSumExp ArgMax ArgMin Dropout"
).split()
CASES: list[tuple[str, list[Any], dict[str, Any]]] = [
    *((kind, [M], {}) for kind in UNARY),
    *((kind, [P], {}) for kind in "Sqrt Log Reciprocal Asin Acos Atanh ReduceProd ReduceLogSum".split()),
    ("Acosh", [P + 1], {}),
    *((kind, [M, M[::-1].copy()], {}) for kind in "Add Sub Mul Div Max Min Sum Mean".split()),
    *((kind, [M, M[::-1].copy()], {}) for kind in "Equal Less LessOrEqual Greater GreaterOrEqual".split()),
    *((kind, [M > 0, M < 0.5], {}) for kind in "And Or Xor".split()),
    ("Not", [M > 0], {}),
    ("Pow", [P, M], {}),
    ("PRelu", [M, V3], {}),
    ("Mod", [M, P], {"fmod": 1}),
    ("Where", [M > 0, M, P], {}),
    ("MatMul", [M, M.T.copy()], {}),
    ("Gemm", [M, M, V3[:1]], {"transB": 1, "alpha": 0.5, "beta": 2.0}),
    ("Gemm", [M, M], {"transA": 1}),
    ("Clip", [M, np.float32(-0.5), np.float32(0.5)], {}),
    ("Conv", [X, W], {"pads": [1, 1, 1, 1]}),
    (
        "Conv",
        [X, W, RNG.normal(size=4).astype(np.float32)],
        {"strides": [2, 2], "dilations": [2, 1], "pads": [0, 1, 2, 0]},
    ),
    ("Conv", [X, W[:3, :1].copy()], {"group": 3, "auto_pad": "SAME_UPPER", "strides": [2, 2]}),
    ("Conv", [X[:, :, 0].copy(), W[:, :, 0].copy()], {}),
    (
        "ConvTranspose",
        [X, RNG.normal(size=(3, 2, 3, 3)).astype(np.float32)],
        {"strides": [2, 2], "pads": [1, 0, 1, 2], "output_padding": [1, 0]},
    ),
    ("MaxPool", [X], {"kernel_shape": [2, 2], "strides": [2, 2]}),
    ("MaxPool", [X], {"kernel_shape": [3, 3], "pads": [1, 0, 1, 1], "strides": [2, 1]}),
    ("AveragePool", [X], {"kernel_shape": [3, 3], "pads": [1, 1, 0, 0]}),
    ("AveragePool", [X], {"kernel_shape": [2, 2], "pads": [1, 1, 0, 0], "count_include_pad": 1}),
    ("GlobalAveragePool", [X], {}),
    ("GlobalMaxPool", [X], {}),
    ("BatchNormalization", [X, V3, V3[::-1].copy(), V3 * 0.1, V3], {}),
    ("LayerNormalization", [M, V3, V3], {}),
    ("InstanceNormalization", [X, V3, V3], {}),
    ("Softmax", [X], {"axis": 1}),
    ("ReduceSum", [X, ints(1, 3)], {"keepdims": 0}),
    ("ReduceMax", [X, ints(-1)], {}),
    ("CumSum", [M, ints(1)[0]], {"reverse": 1}),
    ("Reshape", [X, ints(0, -1, 12)], {}),
    ("Squeeze", [M[:, :1].copy(), ints(1)], {}),
    ("Unsqueeze", [M, ints(0, 3)], {}),
    ("Transpose", [X], {"perm": [0, 2, 3, 1]}),
    ("Expand", [V3, ints(4, 3)], {}),
    ("Tile", [M, ints(2, 1)], {}),
    ("Concat", [M, P], {"axis": 1}),
    ("Slice", [M, ints(-1, 0), ints(-(1 << 40), 2), ints(0, 1), ints(-2, 1)], {}),
    ("Gather", [M, np.array([[2, 0], [1, -1]])], {"axis": 0}),
    ("GatherElements", [M, np.array([[2, 0, 1], [1, 1, 3]])], {"axis": 0}),
    ("ScatterElements", [M, np.array([[2, 0, 1], [2, 1, 3]]), P[:2].copy()], {"reduction": "add"}),
    ("Pad", [M, ints(1, 0, 0, 2), np.float32(1.5)], {}),
    ("Pad", [M, ints(1, 0, 1, 2)], {"mode": "reflect"}),
    ("Einsum", [M, P], {"equation": "ij,kj->ik"}),
    ("Trilu", [M], {"upper": 0}),
    ("DepthToSpace", [RNG.normal(size=(1, 8, 2, 3)).astype(np.float32)], {"blocksize": 2}),
    ("DepthToSpace", [RNG.normal(size=(1, 8, 2, 3)).astype(np.float32)], {"blocksize": 2, "mode": "CRD"}),
    ("OneHot", [ints(1, 0, 2), np.int64(3), np.array([0.0, 2.0], np.float32)], {}),
    ("Cast", [M], {"to": TensorProto.DOUBLE}),
    ("ConstantOfShape", [ints(2, 3)], {}),
    ("Range", [np.float32(1), np.float32(7), np.float32(2)], {}),
]
FIXED = frozenset(
    "Reshape Squeeze Unsqueeze Expand Tile Slice Gather GatherElements ScatterElements Pad OneHot ConstantOfShape "
    "Range CumSum ReduceSum ReduceMax Clip".split()
)
"""Nodes whose operands after the first are stored in the file; of the last of them, all operands are."""
ALL_FIXED = frozenset(["ConstantOfShape", "Range", "OneHot"])


@pytest.mark.parametrize("number", range(len(CASES)), ids=lambda k: f"{k}-{CASES[k][0]}")
def test_nodes_agree_with_onnxruntime(number: int, tmp_path: Path) -> None:
    kind, operands, settings = CASES[number]
    names = [f"x{k}" for k in range(len(operands))]
    first = 0 if kind in ALL_FIXED else 1 if kind in FIXED else len(operands)
    if kind == "ScatterElements":
        inputs, stored = {"x0": operands[0], "x2": operands[2]}, {"x1": operands[1]}
    else:
        inputs = dict(zip(names[:first], operands, strict=False))
        stored = dict(zip(names[first:], operands[first:], strict=True))
    model = make_model([helper.make_node(kind, names, ["y"], **settings)], inputs, stored, ["y"])
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    (expected,) = onnxruntime.InferenceSession(path).run(None, {name: np.asarray(x) for name, x in inputs.items()})
    circuit = wg.from_onnx(path, weights=False)
    found = np.asarray(circuit({name: inputs[name] for name in circuit.inputs}))

    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-6)


GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
RECURRENT: list[tuple[str, dict[str, Any], int]] = [
    *((kind, {"direction": direction}, 7) for kind in GATES for direction in ("forward", "reverse", "bidirectional")),
    ("GRU", {"linear_before_reset": 1}, 7),
    ("GRU", {"linear_before_reset": 1, "direction": "bidirectional"}, 4),
    ("LSTM", {"activations": ["Sigmoid", "Relu", "Tanh"]}, 7),
    ("RNN", {"activations": ["Relu"]}, 3),
    ("LSTM", {}, 3),
    ("LSTM", {}, 4),
    ("GRU", {}, 3),
]


@pytest.mark.parametrize(("kind", "settings", "count"), RECURRENT)
def test_recurrent_layers_agree_with_onnxruntime(kind: str, settings: Any, count: int, tmp_path: Path) -> None:
    """`count` operands are given: without the bias or the first state they are zeros."""
    hidden, directions = 3, 2 if settings.get("direction") == "bidirectional" else 1
    rng = np.random.default_rng(7)
    shapes = {
        "x": (4, 2, 5),
        "w": (directions, GATES[kind] * hidden, 5),
        "r": (directions, GATES[kind] * hidden, hidden),
        "b": (directions, 2 * GATES[kind] * hidden),
        "": (),
        "h": (directions, 2, hidden),
        "c": (directions, 2, hidden),
    }
    names = list(shapes)[: count - (kind != "LSTM" and count == 7)]
    inputs = {name: rng.normal(size=shapes[name]).astype(np.float32) for name in names if name}
    outputs = ["y", "y_h", "y_c"][: 3 if kind == "LSTM" else 2]
    node = helper.make_node(kind, names, outputs, "layer", hidden_size=hidden, **settings)
    path = tmp_path / "model.onnx"
    onnx.save(make_model([node], inputs, {}, outputs), path)
    expected = onnxruntime.InferenceSession(path).run(None, inputs)
    found = wg.from_onnx(path)(**inputs)

    for one, two in zip(found.values(), expected, strict=True):
        np.testing.assert_allclose(one, two, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize(
    ("settings", "extra"),
    [
        ({"clip": 0.5}, {}),
        ({"input_forget": 1}, {}),
        ({"activations": ["Sigmoid", "Softsign", "Tanh"]}, {}),
        ({}, {"lengths": np.array([2, 4], np.int32)}),
        ({}, {"lengths": None, "h": None, "c": None, "p": np.ones((1, 9), np.float32)}),
    ],
)
def test_settings_of_recurrent_layers_that_are_not_known_are_refused(settings: Any, extra: Any, tmp_path: Path) -> None:
    stored = {"w": np.ones((1, 12, 5), np.float32), "r": np.ones((1, 12, 3), np.float32)}
    names = ["x", "w", "r", "", *(name if value is not None else "" for name, value in extra.items())]
    stored |= {name: value for name, value in extra.items() if value is not None}
    node = helper.make_node("LSTM", names, ["y"], "layer", hidden_size=3, **settings)
    model = make_model([node], {"x": np.ones((4, 2, 5), np.float32)}, stored, ["y"])
    onnx.save(model, tmp_path / "model.onnx")

    with pytest.raises(NoRuleError, match=r"node layer \(LSTM\): .* of recurrent layers are not known"):
        wg.from_onnx(tmp_path / "model.onnx")


def make_graph(nodes: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any]) -> Any:
    """Return a graph for the inside of a node; a value is its name, its type and its shape."""
    described = [[helper.make_tensor_value_info(*value) for value in values] for values in (inputs, outputs)]
    return helper.make_graph(list(nodes), "inside", *described)


def make_loop(state: str = "x") -> Any:
    """Return a loop that doubles its state and adds the number of the step, while that is below 2."""
    nodes = [
        helper.make_node("Cast", ["step"], ["number"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["before", "two"], ["twice"]),
        helper.make_node("Add", ["twice", "number"], ["after"]),
        helper.make_node("Less", ["step", "last"], ["more"]),
        helper.make_node("Identity", ["after"], ["row"]),
    ]
    matrix = TensorProto.FLOAT, M.shape
    inputs = [("step", TensorProto.INT64, ()), ("going", TensorProto.BOOL, ()), ("before", *matrix)]
    outputs = [("more", TensorProto.BOOL, ()), ("after", *matrix), ("row", *matrix)]
    body = make_graph(nodes, inputs, outputs)
    return helper.make_node("Loop", ["count", "", state], ["y", "rows"], "loop", body=body)


def save_loop(path: Path, inputs: dict[str, Any], stored: dict[str, Any], state: str = "x") -> None:
    """Save a model of one loop; the shapes of what it returns are not known."""
    model = make_model([make_loop(state)], inputs, stored, ["y", "rows"])
    for output, rank in zip(model.graph.output, (2, 3), strict=True):
        output.CopyFrom(helper.make_tensor_value_info(output.name, TensorProto.FLOAT, [None] * rank))
    onnx.save(model, path)


@pytest.mark.parametrize("count", [1, 2, 9])
def test_loops_are_unrolled(count: int, tmp_path: Path) -> None:
    stored = {"count": np.array(count), "two": np.float32(2.0), "last": np.array(2)}
    path = tmp_path / "model.onnx"
    save_loop(path, {"x": M}, stored)
    expected = onnxruntime.InferenceSession(path).run(None, {"x": M})
    found = wg.from_onnx(path)(x=M)

    for one, two in zip(found.values(), expected, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-6)


@pytest.mark.parametrize("holds", [True, False])
def test_the_branch_of_a_fixed_condition_is_taken(*, holds: bool, tmp_path: Path) -> None:
    branches = [
        make_graph([helper.make_node(kind, ["x"], ["z"])], [], [("z", TensorProto.FLOAT, M.shape)])
        for kind in ("Exp", "Neg")
    ]
    node = helper.make_node("If", ["holds"], ["y"], then_branch=branches[0], else_branch=branches[1])
    path = tmp_path / "model.onnx"
    onnx.save(make_model([node], {"x": M}, {"holds": np.array(holds)}, ["y"]), path)

    np.testing.assert_allclose(wg.from_onnx(path)(x=M), np.exp(M) if holds else -M, rtol=1e-6)


def test_a_condition_or_count_that_depends_on_the_inputs_is_refused(tmp_path: Path) -> None:
    inputs = {"x": M, "count": np.array(3)}
    stored = {"two": np.float32(2.0), "last": np.array(2)}
    save_loop(tmp_path / "model.onnx", inputs, stored)

    with pytest.raises(NoRuleError, match="the number of steps of a loop depends on the inputs"):
        wg.from_onnx(tmp_path / "model.onnx")


def test_a_loop_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_files, "MAX_STEPS", 100)
    stored = {"count": np.array(1 << 60), "two": np.float32(2.0), "last": np.array(1 << 60)}
    save_loop(tmp_path / "model.onnx", {"x": M}, {**stored, "m": M}, "m")

    with pytest.raises(NoRuleError, match="more than 100 steps"):
        wg.from_onnx(tmp_path / "model.onnx", weights=False)


def test_unknown_nodes_inside_of_nodes_are_listed(tmp_path: Path) -> None:
    inside = make_graph([helper.make_node("Hardmax", ["x"], ["z"], "deep")], [], [("z", TensorProto.FLOAT, M.shape)])
    node = helper.make_node("If", ["holds"], ["y"], then_branch=inside, else_branch=inside)
    onnx.save(make_model([node], {"x": M}, {"holds": np.array(True)}, ["y"]), tmp_path / "model.onnx")

    with pytest.raises(UnknownOpsError, match="Hardmax, 2 times, at deep"):
        wg.from_onnx(tmp_path / "model.onnx")


def test_every_known_node_is_tried() -> None:
    tried = {kind for kind, _, _ in CASES} | {"Constant", "Split", "Gelu", "TopK", "Resize", "Upsample", "If", "Loop"}
    tried |= GATES.keys()

    assert {*SAME_OPS, *NODE_RULES} - tried == set()


def test_outputs_may_be_several(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Split", ["x"], ["a", "b"], axis=0, num_outputs=2),
        helper.make_node("TopK", ["x", "k"], ["best", "places"], axis=1),
        helper.make_node("Constant", [], ["two"], value=numpy_helper.from_array(np.float32(2.0))),
        helper.make_node("Mul", ["a", "two"], ["c"]),
        helper.make_node(
            "Resize",
            ["b", "", "scales"],
            ["large"],
            mode="nearest",
            nearest_mode="floor",
            coordinate_transformation_mode="asymmetric",
        ),
    ]
    stored = {"k": ints(2), "scales": np.array([2.0, 1.0], np.float32)}
    path = tmp_path / "model.onnx"
    onnx.save(make_model(nodes, {"x": M}, stored, ["c", "best", "places", "large"]), path)
    expected = onnxruntime.InferenceSession(path).run(None, {"x": M})
    found = wg.from_onnx(path, weights=False)(x=M)

    assert list(found) == ["c", "best", "places", "large"]
    for one, two in zip(found.values(), expected, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-6)


KERAS = Path(__file__).parent / "keras_models"
"""Models of Keras 3.15 (TensorFlow 2.21) as tf2onnx 1.17 writes them: results `y` for `x`, and TensorFlow's gradients.

The gradients, of the sum of the squared results, are in the order of the trainable variables; the last two are those of
the kernel and the bias of the last layer.
"""


def save_squared(name: str, path: Path) -> None:
    """Save a model with the sum of its squared results as its result."""
    model = onnx.load(KERAS / f"{name}.onnx")
    y = model.graph.output[0].name
    model.graph.node.append(helper.make_node("ReduceSumSquare", [y], ["loss"], keepdims=0))
    del model.graph.output[:]
    model.graph.output.append(helper.make_tensor_value_info("loss", TensorProto.FLOAT, ()))
    onnx.save(model, path)


@pytest.mark.parametrize(
    ("name", "kinds", "group"),
    [
        ("cnn", {"Conv", "MaxPool"}, "sequential_1/conv2d_1"),
        ("lstm", {"LSTM"}, "sequential_1_1/lstm_1"),
        ("gru", {"Loop"}, "sequential_2_1/gru_1"),
    ],
)
def test_a_model_of_keras_has_the_results_and_gradients_of_tensorflow(
    name: str, kinds: set[str], group: str, tmp_path: Path
) -> None:
    seen = np.load(KERAS / f"{name}.npz")
    circuit = wg.from_onnx(KERAS / f"{name}.onnx")
    x = {circuit.inputs[0]: seen["x"]}
    save_squared(name, tmp_path / "model.onnx")
    grads = wg.from_onnx(tmp_path / "model.onnx").run(**x).grads
    kernel = next(name for name in grads if "dense" in name)
    expected = [seen[key] for key in seen.files if key.startswith("g")][-2]

    assert {node.op_type for node in onnx.load(KERAS / f"{name}.onnx").graph.node} >= kinds
    assert group in {node.group for node in circuit.nodes}
    np.testing.assert_allclose(circuit(**x), seen["y"], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(grads[kernel], expected, rtol=1e-4, atol=1e-6)


def test_shapes_that_a_file_leaves_open_are_asked_for(tmp_path: Path) -> None:
    model = make_model([helper.make_node("Relu", ["x"], ["y"])], {"x": M}, {}, ["y"])
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch"
    path = tmp_path / "model.onnx"
    onnx.save(model, path)

    with pytest.raises(ShapeError, match=r"\(batch, 3\).*shapes=\{'x': \(2, 3,\)\}"):
        wg.from_onnx(path)
    with pytest.raises(ShapeError, match="got"):
        wg.from_onnx(path, shapes={"x": (2, 4)})
    with pytest.raises(InputError, match="no input called 'xx'"):
        wg.from_onnx(path, shapes={"xx": (2, 3)})
    assert wg.from_onnx(path, shapes={"x": (7, 3)})(x=np.ones((7, 3), np.float32)).shape == (7, 3)


def test_unknown_nodes_are_listed_at_once(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Hardmax", ["x"], ["a"], "first"),
        helper.make_node("Hardmax", ["a"], ["b"], "second"),
        helper.make_node("NonZero", ["b"], ["c"], "third"),
    ]
    onnx.save(make_model(nodes, {"x": M}, {}, ["c"]), tmp_path / "model.onnx")

    with pytest.raises(UnknownOpsError, match=r"(?s)Hardmax, 2 times, at first, second.*NonZero at third"):
        wg.from_onnx(tmp_path / "model.onnx")


def test_what_depends_on_the_inputs_cannot_be_a_shape(tmp_path: Path) -> None:
    node = helper.make_node("Reshape", ["x", "shape"], ["y"], "cut")
    onnx.save(make_model([node], {"x": M, "shape": ints(3, 4)}, {}, ["y"]), tmp_path / "model.onnx")

    with pytest.raises(NoRuleError, match=r"node cut \(Reshape\): a shape depends on the inputs"):
        wg.from_onnx(tmp_path / "model.onnx")


def test_data_in_other_files_is_not_read(tmp_path: Path) -> None:
    model = make_model([helper.make_node("Add", ["x", "w"], ["y"])], {"x": M}, {"w": M}, ["y"])
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="../../../../etc/passwd")
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())

    with pytest.raises(FileFormatError, match="in other files, which are not read"):
        wg.from_onnx(tmp_path / "model.onnx")


@pytest.mark.parametrize(
    ("node", "stored"),
    [
        (helper.make_node("ConstantOfShape", ["n"], ["y"]), {"n": ints(1 << 20, 1 << 20)}),
        (helper.make_node("Tile", ["x", "n"], ["y"]), {"n": ints(1 << 30, 1 << 20)}),
        (helper.make_node("Expand", ["x", "n"], ["y"]), {"n": ints(1 << 30, 4, 3)}),
        (
            helper.make_node("Range", ["a", "b", "c"], ["y"]),
            {"a": np.int64(0), "b": np.int64(1 << 60), "c": np.int64(1)},
        ),
        (helper.make_node("Pad", ["x", "n"], ["y"]), {"n": ints(1 << 40, 0, 0, 0)}),
        (helper.make_node("Reshape", ["x", "n"], ["y"]), {"n": ints(5, 5)}),
        (helper.make_node("Gather", ["x", "n"], ["y"]), {"n": ints(99)}),
        (helper.make_node("Slice", ["x", "n", "n", "n"], ["y"]), {"n": ints(17)}),
        (helper.make_node("Conv", ["x", "x"], ["y"]), {}),
        (helper.make_node("Transpose", ["x"], ["y"], perm=[5, 6]), {}),
        (helper.make_node("Einsum", ["x"], ["y"], equation="ij->kk"), {}),
    ],
    ids=lambda part: getattr(part, "op_type", ""),
)
def test_nodes_that_ask_for_the_impossible_give_typed_errors(node: Any, stored: Any, tmp_path: Path) -> None:
    graph = helper.make_graph(
        [node],
        "model",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, M.shape)],
        [onnx.ValueInfoProto(name="y")],
        [numpy_helper.from_array(np.asarray(x), name) for name, x in stored.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())

    with pytest.raises(WiregradError):
        wg.from_onnx(tmp_path / "model.onnx")


def test_nodes_in_a_circle_or_in_disorder_are_refused(tmp_path: Path) -> None:
    nodes = [helper.make_node("Add", ["x", "b"], ["a"]), helper.make_node("Relu", ["a"], ["b"])]
    graph = helper.make_graph(
        nodes, "model", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])], [onnx.ValueInfoProto(name="b")]
    )
    (tmp_path / "model.onnx").write_bytes(helper.make_model(graph).SerializeToString())

    with pytest.raises(FileFormatError, match="not a valid ONNX file"):
        wg.from_onnx(tmp_path / "model.onnx")


def test_files_that_are_no_models_are_refused(tmp_path: Path) -> None:
    (tmp_path / "text.onnx").write_text("hello")

    with pytest.raises(FileFormatError, match="not a valid ONNX file"):
        wg.from_onnx(tmp_path / "text.onnx")
    with pytest.raises(FileAccessError, match="no such file"):
        wg.from_onnx(tmp_path / "missing.onnx")


@pytest.mark.parametrize("seed", range(choose_count(60, 2000)))
@pytest.mark.filterwarnings("ignore")
def test_damaged_files_end_in_a_circuit_or_a_typed_error(seed: int, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    rng = random.Random(seed)
    data = bytearray((KERAS / f"{('cnn', 'lstm', 'gru')[seed % 3]}.onnx").read_bytes())
    for _ in range(rng.randrange(1, 8)):
        data[rng.randrange(len(data))] = rng.randrange(256)
    path.write_bytes(data[: rng.randrange(len(data))] if rng.random() < 0.2 else data)

    with suppress(WiregradError):
        wg.from_onnx(path)
