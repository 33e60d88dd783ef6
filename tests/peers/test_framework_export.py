"""Circuits as functions of JAX and PyTorch, and as ONNX files: every op, and random circuits there and back.

The interpreter is the definition. What comes back from another library is a circuit again, so both ways are compared.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnxruntime
import pytest
import torch

import wiregrad as wg
from tests.support.limits import PATIENCE
from tests.support.random_circuits import random_circuit, random_point
from tests.support.sampling import choose_count
from wiregrad import nn
from wiregrad.api import Builder, Circuit
from wiregrad.dtypes import WireType
from wiregrad.errors import InputError, NoRuleError
from wiregrad.ir import TABLE, Op, Pattern
from wiregrad.ops import Elementwise
from wiregrad.ops.array_ops import ArrayOp

ORDINARY = (0.3, -0.7, 1.7, 2.5, -40.0, 30.0, 1e-9)
AWKWARD = (0.0, 1.0, -1.0, 800.0, -800.0, np.inf, -np.inf, np.nan)
OWN_ACCURACY = {
    ("betaln", "JAX"): 1e-6,
    ("beta", "JAX"): 1e-6,
    ("gammainc", "PyTorch"): 1e-8,
    ("gammaincc", "PyTorch"): 1e-8,
}
"""Relative errors of functions that these libraries compute less exactly."""
FREE_SIGNS = frozenset(["eig", "eigh", "svd", "qr"])
"""Ops whose vectors are unique up to a factor of length 1, which each library chooses for itself."""
REFUSED: dict[str, frozenset[str]] = {
    "JAX": frozenset(
        "lu_rows lu_factors sqrtm logm polygamma binom erfcinv bessel_j bessel_y bessel_i bessel_k bessel_ie "
        "gamma_moment betaincc beta_moment stdtr".split()
    ),
    "PyTorch": frozenset(
        "lstsq matrix_rank lu_rows lu_factors solve_banded sqrtm logm gamma polygamma betaln beta binom "
        "erfcinv bessel_j bessel_y bessel_i bessel_k bessel_ie gamma_moment betainc betaincc beta_moment stdtr".split()
    ),
}
"""Ops that a library has no equal for. ONNX refuses linear algebra, complex numbers and special functions."""
OPS = [op for op in TABLE if op.pattern is not Pattern.SOURCE and not op.per_call]


def run_onnx(circuit: Circuit, folder: Path, point: Sequence[Any], **options: Any) -> list[Any]:
    path = folder / "circuit.onnx"
    circuit.to_onnx(path, **options)
    onnx.checker.check_model(path, full_check=True)
    assert list_unread(path) == []
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, settings)
    return session.run(None, {name: np.asarray(x) for name, x in zip(circuit.inputs, point, strict=True)})


def list_unread(path: Path) -> list[str]:
    """Return the constants and results of an ONNX file that no node and no output reads."""
    graph = onnx.load(path).graph
    read = {name for node in graph.node for name in node.input} | {output.name for output in graph.output}
    made = [tensor.name for tensor in graph.initializer] + [name for node in graph.node for name in node.output]
    return [name for name in made if name not in read]


def make_calls(folder: Path) -> dict[str, Callable[[Circuit, Sequence[Any]], Any]]:
    return {
        "JAX": lambda circuit, point: jax.jit(circuit.to_jax())(*point),
        "PyTorch": lambda circuit, point: circuit.to_torch()(*point),
        "ONNX": lambda circuit, point: run_onnx(circuit, folder, point)[0],
    }


def list_samples(op: Op) -> list[tuple[list[Any], dict[str, Any]]]:
    """Return points of an op: lists of inputs, each with the settings."""
    if isinstance(op, Elementwise):
        numbers = [
            *map(tuple, product(ORDINARY, repeat=len(op.inputs))),
            *zip(*[AWKWARD] * len(op.inputs), strict=True),
        ]
        points = list(op.samples) or numbers
        if op.takes_bool:
            points = [
                tuple(bool(k) if name in op.takes_bool else 0.3 + k for name, k in zip(op.inputs, bits, strict=True))
                for bits in product((0, 1), repeat=len(op.inputs))
            ]
        return [([np.array(column) for column in zip(*points, strict=True)], {})]
    assert isinstance(op, ArrayOp)
    if op.samples is not None:
        found = [(list(case[:-1]), case[-1]) for case in op.samples(np.random.default_rng(0))]
        return [(xs[0] if op.variadic and isinstance(xs[0], list) else xs, settings) for xs, settings in found]
    return [SAMPLES_OF_BLOCKING[op.name]]


X = np.random.default_rng(1).normal(size=(3, 4))
AXES = {"axes": (-1,), "keepdims": False}
SAMPLES_OF_BLOCKING: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "stop_gradient": ([X], {}),
    "argmax": ([X], {"axis": -1, "keepdims": False}),
    "argmin": ([X], {"axis": -1, "keepdims": False}),
    "argsort": ([X], {"axis": -1}),
    "any": ([X > 0], AXES),
    "all": ([X > 0], AXES),
    "count_nonzero": ([X], AXES),
    "searchsorted": ([np.arange(4.0), X[0]], {"side": "left"}),
    "matrix_rank": ([np.eye(3)], {"rtol": None}),
}


def build_one_node(op: Op, xs: Sequence[Any], settings: dict[str, Any]) -> Circuit:
    builder = Builder(finite=False)
    types = [WireType(np.asarray(x).dtype, np.shape(x)) for x in xs]
    ports = [builder.input(f"x{k}", kind) for k, kind in enumerate(types)]
    return builder.build(builder.apply(op.bind(settings) if settings else op, *ports))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
@pytest.mark.parametrize("library", ["JAX", "PyTorch", "ONNX"])
def test_every_op_is_computed_or_refused(library: str, op: Op, tmp_path: Path) -> None:
    call = make_calls(tmp_path)[library]
    outcomes = set()
    for xs, settings in list_samples(op):
        circuit = build_one_node(op, xs, settings)
        expected = np.asarray(circuit(dict(zip(circuit.inputs, xs, strict=True))))
        try:
            found = np.asarray(call(circuit, [np.asarray(x) for x in xs]))
        except NoRuleError as error:
            assert "cannot be given to" in str(error)
            outcomes.add("refused")
            continue
        outcomes.add("computed")
        if op.name in FREE_SIGNS:
            found, expected = np.abs(found), np.abs(expected)
        tolerance = OWN_ACCURACY.get((op.name, library), 1e-10)
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=1e-12)
        assert found.dtype == expected.dtype

    if library != "ONNX":
        assert outcomes == ({"refused"} if op.name in REFUSED[library] else {"computed"})
    elif isinstance(op, Elementwise) and not op.library:
        assert outcomes == {"computed"}


def draw_circuit(seed: int) -> tuple[Circuit, dict[str, float]]:
    rng = np.random.default_rng([23, seed])
    circuit = random_circuit(rng, nodes=12)
    return circuit, random_point(rng, circuit)


COUNT = choose_count(25, 1000)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(COUNT))
def test_random_circuits_go_to_jax_and_back(seed: int) -> None:
    circuit, point = draw_circuit(seed)
    function = circuit.to_jax()
    back = wg.from_jax(function, *map(np.float64, point.values()))

    np.testing.assert_allclose(function(**point), circuit(point), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(back(), circuit(point), rtol=1e-9, atol=1e-12)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(COUNT))
def test_random_circuits_go_to_pytorch_and_back(seed: int) -> None:
    circuit, point = draw_circuit(seed)
    function = circuit.to_torch()
    tensors = [torch.tensor(x, dtype=torch.float64) for x in point.values()]

    np.testing.assert_allclose(function(*tensors), circuit(point), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(wg.from_torch(function, *tensors)(), circuit(point), rtol=1e-9, atol=1e-12)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(COUNT))
def test_random_circuits_go_to_onnx_and_back(seed: int, tmp_path: Path) -> None:
    circuit, point = draw_circuit(seed)
    (found,) = run_onnx(circuit, tmp_path, list(point.values()))
    back = wg.from_onnx(tmp_path / "circuit.onnx", weights=False)

    np.testing.assert_allclose(found, circuit(point), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(back(point), circuit(point), rtol=1e-9, atol=1e-12)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(choose_count(15, 300)))
def test_onnx_files_compute_wiregrads_gradients(seed: int, tmp_path: Path) -> None:
    circuit, point = draw_circuit(seed)
    value, *slopes = run_onnx(circuit, tmp_path, list(point.values()), gradient=True)

    np.testing.assert_allclose(value, circuit(point), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(slopes, list(circuit.run(point).grads.values()), rtol=1e-8, atol=1e-10)


def network(x: Any, w: Any, b: Any) -> Any:
    return np.mean(np.tanh(x @ w + b)[:, ::-1] ** 2)


RNG = np.random.default_rng(3)
POINT = RNG.normal(size=(5, 3)), RNG.normal(size=(3, 4)), RNG.normal(size=4)
NETWORK = wg.trace(network, *POINT)
SLOPES = wg.grad(network, 1)(*POINT)


def test_jax_compiles_maps_and_differentiates_a_circuit() -> None:
    function = NETWORK.to_jax()
    rows = jax.vmap(function, (None, 0, None))(POINT[0], np.stack([POINT[1], POINT[1] * 2]), POINT[2])

    np.testing.assert_allclose(jax.jit(jax.grad(function, 1))(*POINT), SLOPES, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(rows, [network(*POINT), network(POINT[0], POINT[1] * 2, POINT[2])], rtol=1e-12)


def test_pytorch_maps_differentiates_and_compiles_a_circuit() -> None:
    function = NETWORK.to_torch()
    x, w, b = (torch.tensor(part) for part in POINT)
    rows = torch.func.vmap(function, (None, 0, None))(x, torch.stack([w, w * 2]), b)
    w.requires_grad_()
    torch.compile(function, backend="aot_eager", fullgraph=True)(x, w, b).backward()

    np.testing.assert_allclose(torch.func.grad(function, 1)(x, w.detach(), b), SLOPES, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(rows, [network(*POINT), network(POINT[0], POINT[1] * 2, POINT[2])], rtol=1e-12)
    np.testing.assert_allclose(w.grad, SLOPES, rtol=1e-12, atol=1e-15)


def test_convolutions_go_through_pytorchs_compiler() -> None:
    def layer(x: Any, k: Any) -> Any:
        return np.sum(wg.max_pool2d(wg.conv2d(x, k, padding=1), 2) ** 2)

    point = RNG.normal(size=(1, 2, 6, 6)), RNG.normal(size=(3, 2, 3, 3))
    function = torch.compile(wg.trace(layer, *point).to_torch(), backend="aot_eager", fullgraph=True)
    kernel = torch.tensor(point[1], requires_grad=True)
    function(torch.tensor(point[0]), kernel).backward()

    np.testing.assert_allclose(kernel.grad, wg.grad(layer, 1)(*point), rtol=1e-10)


X = np.array([0.0, 2.0, -1.0, 0.5])
ROWS = np.array([[0.0, 0.0], [3.0, 4.0]])


def divide_by_length(x: Any) -> Any:
    length = np.sqrt(np.sum(x * x, axis=1))
    return np.sum(np.where((length > 0.0)[:, None], x / length[:, None], 0.0) * np.array([1.0, 2.0]))


def share_between_branches(x: Any) -> Any:
    root = np.sqrt(x)
    return np.sum(np.where(x > 0.0, root, 0.0)) + np.sum(np.where(x > 1.0, root, 1.0))


BLOCKED = {
    "root": (lambda x: np.sum(np.where(x > 0.0, np.sqrt(x), 0.0)), X),
    "logarithm": (lambda x: np.sum(np.where(x > 0.0, np.log(x), 0.0)), X),
    "quotient": (lambda x: np.sum(np.where(x == 0.0, 1.0, np.sin(x) / x)), X),
    "power": (lambda x: np.sum(np.where(x > 0.0, x**0.3, -x)), X),
    "chain": (lambda x: np.sum(np.where(x > 0.0, np.tanh(x * np.log(x)), x)), X),
    "both branches": (lambda x: np.sum(np.where(x > 0.0, np.sqrt(x), np.sqrt(-x - 0.25))), X[1:]),
    "nested": (lambda x: np.sum(np.where(x > 0.0, np.where(x > 1.0, np.log(x - 1.0), 0.0), 0.0)), X),
    "maximum": (lambda x: np.sum(np.maximum(np.log(x), -3.0)), X[:2]),
    "clip": (lambda x: np.sum(np.clip(1.0 / x, -4.0, 4.0)), X),
    "relu": (lambda x: np.sum(wg.relu(np.log(x) + 1.0)), X[:2]),
    "broadcast": (divide_by_length, ROWS),
    "shared": (share_between_branches, X),
    "part": (lambda x: np.sum(np.where(x[1:] > 0.0, np.sqrt(x)[1:], 0.0)), X[1:]),
}
"""Functions that block the gradient of a branch whose slope is infinite or NaN, and points at which they do."""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", BLOCKED)
def test_a_blocked_branch_sends_nothing_by_their_rules_either(name: str) -> None:
    f, point = BLOCKED[name]
    circuit = wg.trace(f, point)
    (wanted,) = circuit.run(point).grads.values()
    x = torch.tensor(point, requires_grad=True)
    y = circuit.to_torch()(x)
    y.backward()

    assert np.isfinite(wanted).all()
    assert x.grad is not None
    np.testing.assert_allclose(y.detach(), circuit(point), rtol=1e-12)
    np.testing.assert_allclose(x.grad, wanted, rtol=1e-12)
    np.testing.assert_allclose(jax.grad(circuit.to_jax())(point), wanted, rtol=1e-12)


def test_second_derivatives_of_a_blocked_branch_are_absent_too() -> None:
    f, point = BLOCKED["root"]
    with np.errstate(all="ignore"):
        circuit = wg.trace(f, point)
    wanted = np.diag([0.0, -0.25 * 2.0**-1.5, 0.0, -0.25 * 0.5**-1.5])

    np.testing.assert_allclose(jax.hessian(circuit.to_jax())(point), wanted, rtol=1e-12)
    np.testing.assert_allclose(
        torch.func.jacrev(torch.func.jacrev(circuit.to_torch()))(torch.tensor(point)), wanted, rtol=1e-12
    )


def test_a_formula_is_guarded_like_a_traced_function() -> None:
    circuit = wg.circuit("y = where(w > 0, sqrt(w), 0)")
    w = torch.tensor(-1.0, dtype=torch.float64, requires_grad=True)
    circuit.to_torch()(w).backward()

    assert circuit.run(w=-1.0).grads == {"w": 0.0}
    assert jax.grad(circuit.to_jax())(-1.0) == 0.0
    assert w.grad is not None
    assert w.grad == 0.0


def test_stopped_gradients_are_stopped_elsewhere_too() -> None:
    circuit = wg.trace(lambda x: wg.stop_gradient(x) * x, 3.0)
    x = torch.tensor(3.0, dtype=torch.float64, requires_grad=True)
    circuit.to_torch()(x).backward()

    assert circuit.run(x=3.0).grads == {"x": 3.0}
    assert jax.grad(circuit.to_jax())(3.0) == 3.0
    assert x.grad is not None
    assert x.grad == 3.0


def test_another_branch_gives_nan_unless_it_is_not_checked(tmp_path: Path) -> None:
    circuit = wg.trace(lambda x: x * 2.0 if x > 1.0 else x, 3.0)

    assert circuit.to_jax()(5.0) == 10.0
    assert np.isnan(circuit.to_jax()(0.5))
    assert torch.isnan(circuit.to_torch()(0.5))
    assert circuit.to_torch(check=False)(0.5) == 1.0
    assert run_onnx(circuit, tmp_path, [5.0]) == [10.0]
    assert np.isnan(run_onnx(circuit, tmp_path, [0.5])[0])
    assert np.isnan(run_onnx(circuit, tmp_path, [0.5], gradient=True)).all()


def make_gru() -> tuple[Any, Any]:
    return nn.GRU(3, 4, rng=np.random.default_rng(0)), np.ones((2, 5, 3))


def make_convolutions() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    layers = [nn.Conv2d(1, 2, 3, rng=rng), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(18, 2, rng=rng)]
    return nn.Sequential(*layers), np.ones((2, 1, 8, 8))


def read_one_branch(x: Any) -> Any:
    return np.sum(x * 2.0 if x[0] > 0.0 else x)


@pytest.mark.parametrize("gradient", [False, True])
@pytest.mark.parametrize("make", [make_gru, make_convolutions])
def test_an_onnx_file_of_a_network_holds_only_what_is_read(make: Any, gradient: bool, tmp_path: Path) -> None:
    model, x = make()

    def loss(arrays: Any, x: Any) -> Any:
        result = model.holding(arrays)(x)
        return np.sum((result[0] if isinstance(result, tuple) else result) ** 2)

    wg.trace(loss, model.arrays(), x).to_onnx(tmp_path / "network.onnx", gradient=gradient)

    assert list_unread(tmp_path / "network.onnx") == []


@pytest.mark.parametrize("gradient", [False, True])
@pytest.mark.parametrize("check", [False, True])
def test_an_onnx_file_of_a_branch_holds_only_what_is_read(check: bool, gradient: bool, tmp_path: Path) -> None:
    circuit = wg.trace(read_one_branch, np.array([1.0, 2.0]))
    circuit.to_onnx(tmp_path / "branch.onnx", gradient=gradient, check=check)

    assert list_unread(tmp_path / "branch.onnx") == []


def test_a_condition_cannot_say_that_another_branch_is_taken() -> None:
    circuit = wg.trace(lambda x: np.greater(x, 2.0) if x > 1.0 else np.greater(x, 0.0), 3.0)

    with pytest.raises(NoRuleError, match="use check=False"):
        circuit.to_jax()


def test_32_bits_are_asked_for() -> None:
    circuit = wg.circuit("y = exp(x) * 0.1")

    assert circuit.to_jax("float32")(1.0).dtype == jnp.float32
    assert circuit.to_torch("float32")(torch.tensor(1.0)).dtype == torch.float32
    with pytest.raises(InputError, match="float32 or float64"):
        circuit.to_torch("float16")


@pytest.mark.parametrize(
    ("arguments", "names", "message"),
    [
        ((1.0, 2.0, 3.0), {}, "2 inputs"),
        ((1.0,), {}, "no value for b"),
        ((1.0,), {"a": 2.0}, "given twice"),
        ((1.0,), {"bb": 2.0}, "no input called 'bb'"),
        ((1.0, np.ones(3)), {}, "must have shape"),
        ((1.0, 1j), {}, "must be"),
    ],
)
def test_wrong_arguments_are_named(arguments: Any, names: Any, message: str) -> None:
    circuit = wg.circuit("y = a * b")

    with pytest.raises(InputError, match=message):
        circuit.to_jax()(*arguments, **names)
    with pytest.raises(InputError, match=message):
        circuit.to_torch()(*arguments, **names)


def test_all_refused_ops_are_listed_at_once() -> None:
    circuit = wg.trace(lambda x: np.sum(np.linalg.inv(x)) + np.linalg.det(x), np.eye(2))

    with pytest.raises(NoRuleError, match=r"(?s)inv needs.*det needs"):
        circuit.to_onnx("never_written.onnx")


def test_a_users_own_op_is_refused() -> None:
    class Twice(wg.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return 2.0 * x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return 2.0 * g

    with pytest.raises(NoRuleError, match="Twice is a user's own op"):
        wg.trace(Twice.apply, 1.0).to_jax()


SHARDED = """
import numpy as np, jax, wiregrad as wg
from jax.sharding import Mesh, NamedSharding, PartitionSpec
rng = np.random.default_rng(0)
x, w = rng.normal(size=(64, 5)), rng.normal(size=(5, 3))
circuit = wg.trace(lambda x, w: np.mean(np.tanh(x @ w) ** 2, axis=1), x, w)
mesh = Mesh(np.array(jax.devices()), ("batch",))
rows = jax.device_put(x, NamedSharding(mesh, PartitionSpec("batch")))
y = jax.jit(circuit.to_jax())(rows, w)
assert len(jax.devices()) == 8 and len(y.sharding.device_set) == 8, y.sharding
np.testing.assert_allclose(y, circuit(x, w), rtol=1e-12)
"""
SHARDED_PARAMETERS = """
import numpy as np, jax, wiregrad as wg
from jax.sharding import Mesh, NamedSharding, PartitionSpec
rng = np.random.default_rng(0)
x, w, v = rng.normal(size=(64, 6)), rng.normal(size=(6, 12)), rng.normal(size=(12, 4))
circuit = wg.trace(lambda x, w, v: np.mean((np.tanh(x @ w) @ v) ** 2), x, w, v)
mesh = Mesh(np.array(jax.devices()).reshape(2, 4), ("batch", "model"))
parts = [PartitionSpec("batch"), PartitionSpec(None, "model"), PartitionSpec("model")]
arrays = [jax.device_put(a, NamedSharding(mesh, part)) for a, part in zip((x, w, v), parts)]
shardings = tuple(a.sharding for a in arrays[1:])
step = jax.jit(jax.value_and_grad(circuit.to_jax(), (1, 2)), out_shardings=(None, shardings))
loss, slopes = step(*arrays)
run = circuit.run(x, w, v)
assert [slope.sharding.spec for slope in slopes] == parts[1:], slopes[0].sharding
assert len({str(shard.index) for shard in slopes[0].addressable_shards}) == 4
np.testing.assert_allclose(loss, run.output, rtol=1e-12)
for name, slope in zip("wv", slopes):
    np.testing.assert_allclose(slope, run.grads[name], rtol=1e-10, atol=1e-14)
"""


@pytest.mark.parametrize("code", [SHARDED, SHARDED_PARAMETERS], ids=["batch", "batch and parameters"])
def test_a_circuit_sharded_over_eight_devices_equals_the_interpreter(code: str) -> None:
    setting = {"XLA_FLAGS": "--xla_force_host_platform_device_count=8", "JAX_ENABLE_X64": "1", "JAX_PLATFORMS": "cpu"}
    result = run_child(code, setting)

    assert result.returncode == 0, result.stderr


def test_64_bits_are_refused_where_jax_would_use_32() -> None:
    code = """
import wiregrad as wg
try:
    wg.circuit("y = a * b").to_jax()
except wg.errors.NoRuleError as error:
    assert "jax_enable_x64" in str(error)
else:
    raise SystemExit("nothing was raised")
assert str(wg.circuit("y = a * b").to_jax("float32")(2.0, 3.0).dtype) == "float32"
"""
    result = run_child(code, {"JAX_ENABLE_X64": "0", "JAX_PLATFORMS": "cpu"})

    assert result.returncode == 0, result.stderr


def run_child(code: str, settings: dict[str, str]) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **settings}
    return subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
