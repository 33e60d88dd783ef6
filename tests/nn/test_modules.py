"""Modules: names, states, copies that hold other arrays, text, groups in circuits, and what is refused."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

import wiregrad as wg
from wiregrad import nn
from wiregrad.errors import FileAccessError, FileFormatError, InputError, ShapeError, StateError

from ..support.limits import PATIENCE


class Block(nn.Module):
    """A layer with a shortcut."""

    def __init__(self, width: int, rng: np.random.Generator) -> None:
        self.inner = nn.Linear(width, width, rng=rng)

    def forward(self, x: Any) -> Any:
        return x + np.tanh(self.inner(x))


class Net(nn.Module):
    """Layers as attributes, in a list and in a dict."""

    def __init__(self, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.first = nn.Linear(2, 3, rng=rng)
        self.blocks = [Block(3, rng), Block(3, rng)]
        self.heads = {"left": nn.Sequential(nn.Tanh(), nn.Linear(3, 1, rng=rng))}
        self.scale = wg.Value(2.0)

    def forward(self, x: Any) -> Any:
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        return self.heads["left"](x) * self.scale


NAMES = [
    *("first.weight", "first.bias", "blocks.0.inner.weight", "blocks.0.inner.bias", "blocks.1.inner.weight"),
    *("blocks.1.inner.bias", "heads.left.1.weight", "heads.left.1.bias", "scale"),
]
X = np.random.default_rng(1).normal(size=(4, 2))


def test_parameters_are_named_by_the_paths_of_attributes() -> None:
    assert sorted(Net().parameters()) == sorted(NAMES)


def test_modules_are_found_by_their_paths() -> None:
    paths = ["", "blocks.0", "blocks.0.inner", "blocks.1", "blocks.1.inner", "first", "heads.left", "heads.left.0"]

    assert sorted(Net().modules()) == [*paths, "heads.left.1"]


def test_a_result_that_a_module_keeps_is_no_parameter() -> None:
    model = Net()
    model.last = model(X)  # type: ignore[attr-defined]

    assert "last" not in model.parameters()


def test_a_shared_parameter_is_listed_once_and_saved_under_each_name() -> None:
    rng = np.random.default_rng(0)
    model = nn.Sequential(nn.Linear(3, 3, rng=rng), nn.Linear(3, 3, rng=rng))
    model[1].weight = model[0].weight  # type: ignore[attr-defined]

    assert list(model.parameters()) == ["0.weight", "0.bias", "1.bias"]
    assert list(model.state_dict()) == ["0.weight", "0.bias", "1.weight", "1.bias"]
    assert np.array_equal(model.holding(model.arrays())(X @ np.ones((2, 3))), model(X @ np.ones((2, 3))).data)


def test_a_shared_parameter_gets_the_gradients_of_all_its_uses() -> None:
    rng = np.random.default_rng(0)
    model = nn.Sequential(nn.Linear(3, 3, rng=rng), nn.Linear(3, 3, rng=rng))
    model[1].weight = model[0].weight  # type: ignore[attr-defined]
    x = np.ones((1, 3))
    np.sum(model(x)).backward()
    grads = wg.grad(lambda arrays: np.sum(model.holding(arrays)(x)))(model.arrays())

    assert np.allclose(grads["0.weight"], model[0].weight.grad, atol=1e-14)  # type: ignore[attr-defined]


def test_a_state_loaded_elsewhere_gives_the_same_bits() -> None:
    source, target = Net(0), Net(1)
    target.load_state_dict(source.state_dict())

    assert np.array_equal(source(X).data, target(X).data)
    assert target.state_dict().keys() == source.state_dict().keys()


def test_a_state_is_a_copy() -> None:
    model = Net()
    model.state_dict()["first.bias"][:] = 9.0

    assert not np.any(model.first.bias.data == 9.0)


def test_a_loaded_state_keeps_the_dtype_of_the_parameters() -> None:
    rng = np.random.default_rng(0)
    model = nn.Linear(2, 2, rng=rng, dtype=np.float32)
    model.load_state_dict(nn.Linear(2, 2, rng=rng).state_dict())

    assert model.weight.dtype == np.float32


def test_a_state_that_does_not_fit_is_refused_with_everything_that_is_wrong() -> None:
    model = Net()
    before = model.state_dict()
    state = {name: array for name, array in before.items() if name not in ("first.bias", "scale")}
    state |= {"other": np.zeros(2), "first.weight": np.zeros((2, 2))}
    with pytest.raises(StateError) as caught:
        model.load_state_dict(state)

    assert str(caught.value) == (
        "the arrays for Net do not fit:\n"
        "  missing: scale, first.bias\n"
        "  unexpected: other\n"
        "  different: first.weight has shape (2, 2), not (3, 2)"
    )
    assert all(np.array_equal(before[name], array) for name, array in model.state_dict().items())


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        ("scale", np.array(1j), "scale is complex128, not float64"),
        ("scale", np.array("large"), "scale is <U5, not float64"),
    ],
)
def test_arrays_that_would_lose_something_are_refused(name: str, array: Any, message: str) -> None:
    model = Net()
    with pytest.raises(StateError) as caught:
        model.load_state_dict({**model.state_dict(), name: array})

    assert message in str(caught.value)


def test_a_state_that_is_no_dict_is_refused() -> None:
    with pytest.raises(InputError, match="Net needs a dict from names to arrays; got None"):
        Net().load_state_dict(None)  # type: ignore[arg-type]


def test_a_model_is_converted_to_another_dtype() -> None:
    rng = np.random.default_rng(0)
    model = nn.Sequential(nn.Linear(2, 3, rng=rng), nn.BatchNorm1d(3)).astype(np.float32)

    assert {array.dtype for name, array in model.state_dict().items() if "tracked" not in name} == {np.dtype("f4")}
    assert model(np.ones((4, 2), np.float32)).dtype == np.float32


def test_a_summary_leaves_the_model_as_it_is() -> None:
    rng = np.random.default_rng(0)
    model = nn.Sequential(nn.Linear(2, 3, rng=rng), nn.BatchNorm1d(3), nn.Dropout(0.5, rng=rng))
    before = model.state_dict()
    text = model.summary(np.ones((4, 2)))

    assert text.splitlines()[2].split() == ["0", "Linear", "(4,", "3)", "9"]
    assert text.splitlines()[-1] == "15 parameters, 120 bytes"
    assert all(np.array_equal(before[name], array) for name, array in model.state_dict().items())
    assert model.training
    assert "output" not in model.summary()


def test_an_averaged_model_has_the_mean_of_its_updates() -> None:
    rng = np.random.default_rng(0)
    model = nn.Linear(2, 1, rng=rng)
    averaged = nn.AveragedModel(model)
    weights = [rng.normal(size=(1, 2)) for _ in range(4)]
    for weight in weights:
        model.weight.data = weight
        averaged.update_parameters(model)

    assert np.allclose(averaged.module.weight.data, np.mean(weights, axis=0), rtol=1e-15)
    assert np.array_equal(model.weight.data, weights[-1])
    assert averaged.state_dict()["n_averaged"] == 4


def test_a_long_list_of_names_is_cut() -> None:
    with pytest.raises(StateError, match=r"unexpected: x0, .*, x19 and 80 more"):
        Net().load_state_dict({**Net().state_dict(), **{f"x{k}": 0.0 for k in range(100)}})


def test_a_copy_that_holds_arrays_computes_with_them_and_leaves_the_model_alone() -> None:
    model, other = Net(0), Net(1)
    held = model.holding(other.arrays())

    assert np.array_equal(held(X), other(X).data)
    assert not np.array_equal(model(X).data, other(X).data)
    assert list(held.parameters()) == list(model.parameters())


@pytest.mark.parametrize("emptied", [False, True])
def test_gradients_by_arrays_are_those_of_the_parameters(emptied: bool) -> None:
    model = Net()
    loss = np.sum(model(X) ** 2)
    loss.backward()
    structure = model.emptied() if emptied else model
    value, grads = wg.value_and_grad(lambda arrays: np.sum(nn.call_with(structure, arrays, X) ** 2))(model.arrays())

    assert value == loss.data
    assert {name: np.asarray(grads[name]).tolist() for name in NAMES} == {
        name: np.asarray(value.grad).tolist() for name, value in model.parameters().items()
    }


def test_arrays_that_are_missing_from_a_call_are_named() -> None:
    model = Net()
    arrays = model.arrays()
    del arrays["scale"]
    with pytest.raises(StateError, match="missing: scale"):
        nn.call_with(model, arrays, X)


def test_gradients_of_a_whole_model_are_right() -> None:
    model = Net()

    assert wg.check_grads(lambda arrays, x: np.sum(model.holding(arrays)(x)), model.arrays(), X, order=1).ok


def test_training_and_evaluation_reach_all_modules() -> None:
    model = Net().eval()
    modes = {module.training for module in model.modules().values()}

    assert modes == {False}
    assert {module.training for module in model.train().modules().values()} == {True}


def test_gradients_are_forgotten() -> None:
    model = Net()
    np.sum(model(X)).backward()
    model.zero_grad()

    assert {value.grad for value in model.parameters().values()} == {None}


def test_text_shows_the_tree() -> None:
    assert repr(Net()) == (
        "Net(\n"
        "  (first): Linear(in_features=2, out_features=3, bias=True)\n"
        "  (blocks.0): Block(\n"
        "    (inner): Linear(in_features=3, out_features=3, bias=True)\n"
        "  )\n"
        "  (blocks.1): Block(\n"
        "    (inner): Linear(in_features=3, out_features=3, bias=True)\n"
        "  )\n"
        "  (heads.left): Sequential(\n"
        "    (0): Tanh()\n"
        "    (1): Linear(in_features=3, out_features=1, bias=True)\n"
        "  )\n"
        ")"
    )


def list_groups(run: wg.Run) -> set[str]:
    return {node.group for node in run.circuit.nodes}


def test_modules_are_groups_and_parameters_have_their_paths_as_names() -> None:
    model = Net()
    run = wg.run(lambda x: np.sum(model(x)), X)
    groups = {re.sub("/linear$", "", group) for group in list_groups(run)}

    assert groups == {
        *("", "model", "model/first", "model/blocks[0]", "model/blocks[0]/inner", "model/blocks[1]"),
        *("model/blocks[1]/inner", "model/heads.left/0: Tanh", "model/heads.left/1: Linear"),
    }
    assert "blocks[1].inner.weight" in run.circuit.inputs


def test_layers_of_a_plain_sequence_are_groups() -> None:
    rng = np.random.default_rng(0)
    model = nn.Sequential(nn.Linear(2, 3, rng=rng), nn.Tanh())
    run = wg.run(lambda x: np.sum(model(x)), X)

    assert list_groups(run) == {"", "0: Linear/linear", "1: Tanh"}
    assert run.circuit.inputs == ("x", "layers[0].weight", "layers[0].bias")


def test_a_module_that_is_traced_by_itself_has_groups_and_names() -> None:
    rng = np.random.default_rng(0)
    circuit = wg.trace(nn.Sequential(nn.Linear(2, 3, rng=rng), Block(3, rng), nn.Tanh()), X)

    assert {node.group for node in circuit.nodes} == {
        *("0: Linear/linear", "1/Block", "1/Block/inner/linear", "2: Tanh"),
    }
    assert circuit.inputs[:2] == ("x", "layers[0].weight")


def test_the_signature_of_a_module_is_that_of_forward() -> None:
    assert str(inspect.signature(Net())) == "(x: 'Any') -> 'Any'"
    assert str(inspect.signature(Net)) == "(seed: 'int' = 0) -> 'None'"


def test_gradient_flow_is_reported_for_each_layer() -> None:
    model = Net()
    text = str(wg.run(lambda x: np.sum(model(x)), X).flow())

    assert [name for name in ("model/first", "model/blocks[0]/inner", "1: Linear") if name not in text] == []


def test_blame_names_the_layer_and_the_line() -> None:
    model = nn.Sequential(nn.Linear(2, 2, rng=np.random.default_rng(0)), nn.Sequential(Root()))
    with np.errstate(invalid="ignore"):
        text = str(wg.run(lambda x: np.sum(model(x)), -np.ones((1, 2))).blame())

    assert "sqrt gave NaN" in text
    assert "in 1: Sequential/0/" in text
    assert Path(__file__).name in text


class Root(nn.Module):
    """The root of its input."""

    def forward(self, x: Any) -> Any:
        return np.sqrt(x - 100.0)


def test_explain_finds_parameters_by_their_names() -> None:
    model = Net()
    run = wg.run(lambda x: np.sum(model(x)), X)

    assert str(run.explain("blocks[0].inner.weight")).startswith("the gradient of blocks[0].inner.weight is")


def test_a_module_without_forward_says_so() -> None:
    with pytest.raises(NotImplementedError, match="Empty has no forward"):
        type("Empty", (nn.Module,), {})()(X)


def test_an_error_names_the_layer_the_parameter_and_both_shapes() -> None:
    with pytest.raises(ShapeError) as caught:
        Net().blocks[1](np.zeros((2, 7)))

    assert str(caught.value) == (
        "layer blocks.1.inner (Linear): the input has shape (2, 7); weight of shape (3, 3) needs 3 along its last axis"
    )


def test_a_call_that_would_lose_running_means_is_refused() -> None:
    model = nn.Sequential(nn.BatchNorm1d(2))
    with pytest.raises(InputError, match=r"this call changes 0.running_mean, 0.running_var, .*copy.buffers\(\)"):
        nn.call_with(model, model.arrays(), X)

    assert nn.call_with(model.eval(), model.arrays(), X).shape == X.shape


def test_files_bring_back_the_same_bits(tmp_path: Path) -> None:
    model, other = Net(0), Net(1)
    nn.save_arrays(tmp_path / "model.safetensors", model.state_dict())
    other.load_state_dict(nn.load_arrays(tmp_path / "model.safetensors"))

    assert np.array_equal(model(X).data, other(X).data)


@pytest.mark.parametrize("length", [0, 7, 60, -1])
def test_a_file_that_is_cut_off_is_refused(length: int, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    nn.save_arrays(path, Net().state_dict())
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(FileFormatError, match="cannot be read as a safetensors file"):
        nn.load_arrays(path)


def test_a_file_that_is_missing_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(FileAccessError, match="cannot read"):
        nn.load_arrays(tmp_path / "nosuch")
    with pytest.raises(FileAccessError, match="cannot write"):
        nn.save_arrays(tmp_path / "nosuch" / "model", {"a": np.zeros(2)})


@pytest.mark.parametrize("dtype", ["f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "?"])
def test_files_are_those_of_the_safetensors_package(dtype: str, tmp_path: Path) -> None:
    arrays = {
        "a.weight": np.arange(6).reshape(2, 3).astype(dtype),
        "number": np.array(1, dtype),
        "none": np.zeros((0, 2)),
    }
    nn.save_arrays(tmp_path / "ours", arrays)
    safetensors.numpy.save_file(arrays, tmp_path / "theirs", {"format": "pt"})
    read = [safetensors.numpy.load_file(tmp_path / "ours"), nn.load_arrays(tmp_path / "theirs")]

    for found in read:
        assert {name: (array.dtype, array.tolist()) for name, array in found.items()} == {
            name: (array.dtype, array.tolist()) for name, array in arrays.items()
        }


def test_a_file_is_replaced_at_once_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.safetensors"
    nn.save_arrays(path, {"a": np.zeros(3)})

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    monkeypatch.setattr(os, "rename", fail)
    with pytest.raises(FileAccessError, match="cannot write"):
        nn.save_arrays(path, {"a": np.ones(3)})

    assert nn.load_arrays(path)["a"].tolist() == [0.0, 0.0, 0.0]
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize(
    ("name", "array"), [("a", np.array(["text"])), ("a", np.ones(2, complex)), ("__metadata__", [1.0])]
)
def test_arrays_that_a_file_cannot_hold_are_named(name: str, array: Any, tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match=f"cannot hold '{name}'"):
        nn.save_arrays(tmp_path / "model", {name: array})


def test_networks_are_loaded_on_first_use() -> None:
    code = (
        "import sys, wiregrad as wg\n"
        "before = [name for name in sys.modules if name.startswith(('wiregrad.nn', 'wiregrad.optim'))]\n"
        "assert before == [], before\n"
        "assert wg.nn.Module and wg.optim.Adam\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=PATIENCE)


@pytest.mark.parametrize("name", nn.__all__)
def test_the_page_on_networks_names_everything_that_there_is(name: str) -> None:
    page = Path(__file__).parents[2] / "docs" / "networks.md"

    assert f"`{name}`" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("CrossEntropyLoss", "wiregrad.nn has no 'CrossEntropyLoss'; the loss is a function, nn.cross_entropy"),
        ("Parameter", "wiregrad.nn has no 'Parameter'; a parameter is wg.Value(array)"),
        ("Linaer", "wiregrad.nn has no 'Linaer'; did you mean Linear?"),
    ],
)
def test_names_of_torch_nn_that_are_missing_are_explained(name: str, message: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(nn, name)

    assert str(caught.value) == message


@pytest.mark.parametrize("name", nn.NAMES_IN_PYTORCH)
def test_no_name_is_explained_as_missing_that_is_there(name: str) -> None:
    assert name not in vars(nn)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("named_parameters", "Net has no attribute 'named_parameters'; parameters() is a dict from names to values"),
        ("wieght", "Net has no attribute 'wieght'"),
    ],
)
def test_methods_of_pytorch_that_are_missing_are_explained(name: str, message: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(Net(), name)

    assert str(caught.value) == message


@pytest.mark.parametrize(("name", "near"), [("Lnear", "Linear"), ("Conv", "Conv1d"), ("leakyrelu", "LeakyReLU")])
def test_a_misspelt_layer_is_answered_with_the_near_one(name: str, near: str) -> None:
    with pytest.raises(AttributeError, match=f"wiregrad.nn has no {name!r}; did you mean {near}\\?"):
        getattr(nn, name)
