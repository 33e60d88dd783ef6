"""Messages: which library's function was called, and what to write instead; habits of other libraries are answered."""

from __future__ import annotations

import ast
import decimal
import fractions
import linecache
import math
import re
import statistics
from collections.abc import Callable
from math import hypot
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.signal
import scipy.sparse.linalg
import scipy.special
import scipy.stats

import wiregrad as wg
from wiregrad.errors import (
    EscapeError,
    GradientError,
    InputError,
    MutationError,
    NoRuleError,
    OperandError,
    ShapeError,
    UnknownAttributeError,
    WiregradError,
    read_line_of_code,
    suggest_name,
)
from wiregrad.frontends.recording import hints
from wiregrad.frontends.recording.hints import ForeignNames
from wiregrad.ops.functions import FUNCTIONS
from wiregrad.ops.functions.registry import REFUSALS

MATRIX = np.array([[4.0, 1.0], [1.0, 3.0]])


def read_message(call: Callable[[wg.Value], object], kind: type[Exception], start: object = MATRIX) -> str:
    """Return the first line of the error that a call raises; the second one names this file."""
    with pytest.raises(kind) as caught:
        call(wg.Value(start))
    first, _, rest = str(caught.value).partition("\n")
    assert not rest or "test_messages.py" in rest
    return first


OWN_DERIVATIVE = "has no rule: pass v.data, which stops the gradient, or give it its derivative:"
OWN_GRADIENT = (
    "has no rule: compute it from functions that have one, pass v.data, which stops the gradient, or give it its "
    "gradient:"
)
WHOLE_NUMBERS = (
    "has no rule: it takes whole numbers or bools; compare a value first (x > 0), or give it np.int64(x.data)"
)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda v: np.gcd(v, 2), f"np.gcd {WHOLE_NUMBERS}"),
        (lambda v: np.gcd.outer(v, v), f"np.gcd.outer {WHOLE_NUMBERS}"),
        (scipy.special.wofz, f"scipy.special.wofz {OWN_DERIVATIVE}"),
        (np.spacing, f"np.spacing has no rule: {REFUSALS[np.spacing]}"),
        (lambda v: np.savetxt("file", v), "np.savetxt has no rule: a file holds no gradient; write x.data"),
        (lambda v: np.tan(v, casting="no"), "np.tan with casting= has no rule: leave out casting="),
    ],
)
def test_a_function_without_a_rule_is_named_as_people_import_it(call: Callable[[Any], object], message: str) -> None:
    assert read_message(call, NoRuleError) == message


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (scipy.linalg.schur, f"scipy.linalg.schur {OWN_GRADIENT}"),
        (scipy.linalg.ldl, f"scipy.linalg.ldl {OWN_GRADIENT}"),
        (scipy.stats.semicircular.pdf, f"scipy.stats.semicircular.pdf {OWN_GRADIENT}"),
        (scipy.stats.describe, f"scipy.stats.describe {OWN_GRADIENT}"),
        (scipy.special.lambertw, f"scipy.special.lambertw {OWN_DERIVATIVE}"),
    ],
)
def test_a_scipy_function_that_would_lose_the_gradient_is_named(call: Callable[[Any], object], message: str) -> None:
    with pytest.raises(WiregradError) as caught:
        call(wg.Value(MATRIX))
    lines = str(caught.value).split("\n")

    assert lines[0] == message
    assert lines[-1].startswith(f"  recorded at {__file__}:")


def test_a_value_that_becomes_an_array_in_the_users_own_code_names_no_library() -> None:
    message = read_message(lambda v: np.asarray(v, float), EscapeError)

    assert message.startswith("a recorded value cannot become an array: its gradient would be silently lost; ")


@pytest.mark.parametrize("name", [*FUNCTIONS])
def test_signatures_are_shown_without_types(name: str) -> None:
    signature = hints.describe_signature(FUNCTIONS[name].run, name)

    assert signature.startswith(f"{name}(")
    assert ":" not in signature
    assert "->" not in signature


def test_arguments_that_a_function_does_not_take_show_how_it_is_called() -> None:
    assert read_message(lambda v: v.trace(nosuch=1), NoRuleError) == (
        "trace: got an unexpected keyword argument 'nosuch'; call it as "
        f"{hints.describe_signature(FUNCTIONS['trace'].run, 'trace')}"
    )
    assert hints.describe_signature(wg.softmax, "softmax") == "softmax(x, axis=-1)"


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [
        ("sofmax", "softmax"),
        ("relly", ""),
        ("logsumepx", "logsumexp"),
        ("nosuch", ""),
        ("Varable", ""),
        ("soft", "softmax"),
        ("sni", "sin"),
        ("put_ad", ""),
        ("randn_like", ""),
    ],
)
def test_only_public_names_that_are_close_are_suggested(name: str, suggestion: str) -> None:
    with pytest.raises(UnknownAttributeError) as caught:
        getattr(wg, name)

    ending = f"; did you mean {suggestion}?" if suggestion else ""
    assert str(caught.value).startswith(f"wiregrad has no {name!r}{ending}")
    assert ending or "did you mean" not in str(caught.value)


def test_a_name_is_not_suggested_for_itself() -> None:
    assert suggest_name("sin", ["sin"]) == ""


# Habits -------------------------------------------------------------------------------------------------------------


def run_hint(hint: str) -> None:
    """Run the code that a hint recommends, in a small program."""
    rng = np.random.default_rng(0)
    w = wg.Value(MATRIX)
    (w * w).sum().backward()
    scope = {
        "a": wg.Value(MATRIX),
        "b": wg.Value(MATRIX),
        "f": lambda x: np.sum(np.asarray(x) ** 2) if isinstance(x, list) else (x * x).sum(),
        "index": np.array([[0], [1]]),
        "n": 2,
        "np": np,
        "other": wg.Value(MATRIX),
        "rng": rng,
        "shape": MATRIX.shape,
        "v": wg.Value(MATRIX),
        "values": wg.Value(np.ones(2)),
        "w": w,
        "wg": wg,
        "x": MATRIX,
        "y": wg.Value(2.0) * 3.0,
    }
    assert {*scope} == {*hints.HINT_VARIABLES}
    for code in re.findall(r"write (.+?)(?:$| or | and |; )", hint):
        exec(compile(ast.parse(code), "<hint>", "exec"), scope)


ALL_HINTS = {
    **hints.VALUE_HINTS,
    **hints.MODULE_HINTS,
    **hints.VALUE_KEYWORD_HINTS,
    **hints.DIM_HINTS,
    **hints.TORCH_FUNCTION_HINTS,
}


@pytest.mark.parametrize("name", hints.IN_PLACE_METHODS)
def test_a_method_in_place_has_one_that_returns_a_new_value(name: str) -> None:
    assert callable(getattr(wg.Value, name))


@pytest.mark.parametrize("hint", sorted({hint for hint in ALL_HINTS.values() if "(...)" not in hint}))
def test_what_a_hint_recommends_runs(hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    run_hint(hint)


@pytest.mark.parametrize("name", hints.VALUE_HINTS)
def test_an_attribute_of_another_library_is_answered_with_what_to_write(name: str) -> None:
    v = wg.Value(2.0)
    wanted = f"wg.Value has no {name!r}: {hints.VALUE_HINTS[name]}\n  recorded at {__file__}"

    assert not hasattr(v, name)
    assert name not in dir(v)
    with pytest.raises(UnknownAttributeError, match=re.escape(wanted)):
        getattr(v, name)
    with pytest.raises(UnknownAttributeError, match=re.escape(wanted)):
        setattr(v, name, True)


@pytest.mark.parametrize("name", hints.MODULE_HINTS)
def test_a_name_of_another_library_is_answered_with_what_to_write(name: str) -> None:
    with pytest.raises(UnknownAttributeError) as caught:
        getattr(wg, name)

    assert str(caught.value) == f"wiregrad has no {name!r}: {hints.MODULE_HINTS[name]}"


@pytest.mark.parametrize("name", ["ones", "pi", "float32", "arange", "newaxis"])
def test_names_of_numpy_that_take_no_values_are_left_to_numpy(name: str) -> None:
    with pytest.raises(UnknownAttributeError, match=f"wiregrad has no '{name}': write np.{name}$"):
        getattr(wg, name)


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (
            lambda v: v.exp_(),
            UnknownAttributeError,
            "wg.Value has no 'exp_': a value does not change in place; write v = v.exp(...)",
        ),
        (
            lambda v: v.add_(1.0),
            UnknownAttributeError,
            "wg.Value has no 'add_': a value does not change in place; write v = v.add(...)",
        ),
        (
            lambda v: wg.Value(2.0, requires_grad=True),  # type: ignore[arg-type]
            InputError,
            "wg.Value has no keyword 'requires_grad': every value that you make has a gradient; for a constant, write "
            "wg.stop_gradient(x)",
        ),
        (
            lambda v: wg.Value(2.0, nosuch=True),  # type: ignore[arg-type]
            InputError,
            "wg.Value has no keyword 'nosuch': it takes Value(data, name=None)",
        ),
        (
            lambda v: v.max(dim=0),
            NoRuleError,
            "max: PyTorch's max(dim=) returns values and indices; write v.max(axis=0) and v.argmax(axis=0)",
        ),
        (
            lambda v: v.std(dim=0),
            NoRuleError,
            "std: PyTorch's std divides by n - 1; write v.std(axis=0, ddof=1)",
        ),
        (lambda v: v.trace(dim=0), NoRuleError, "trace: write axis=, not dim="),
        (lambda v: v.sum(dim=0, axis=1), NoRuleError, "sum: write axis=, not dim="),
        (lambda v: v.permute(), ShapeError, "permute: axes don't match array"),
        (
            lambda v: v.view(np.float32),
            OperandError,
            "view: view would take the bits of float64 for float32, which has no gradient; to convert the numbers "
            "write x.astype('float32')",
        ),
        (
            lambda v: v.sum().backward(create_graph=True),
            GradientError,
            "gradients of backward() are plain numbers, which have no derivatives; instead of create_graph=True write "
            "wg.grad(wg.grad(f))(x) or wg.hessian(f)(x)",
        ),
    ],
)
def test_a_habit_that_means_something_else_here_is_refused(
    call: Callable[[Any], object], kind: type[Exception], message: str
) -> None:
    assert read_message(call, kind) == message


@pytest.mark.parametrize(
    ("call", "plain"),
    [
        (lambda v: v.sum(dim=1, keepdim=True), lambda x: x.sum(axis=1, keepdims=True)),
        (lambda v: v.mean(dim=-1), lambda x: x.mean(axis=-1)),
        (lambda v: v.cumsum(dim=0), lambda x: x.cumsum(axis=0)),
        (lambda v: v.softmax(dim=0), lambda x: np.exp(x) / np.exp(x).sum(0)),
        (lambda v: v.unsqueeze(0).squeeze(dim=0), lambda x: x),
        (lambda v: v.view(-1), lambda x: x.reshape(-1)),
        (lambda v: v.view(4, 1), lambda x: x.reshape(4, 1)),
        (lambda v: v.view((1, 4)), lambda x: x.reshape(1, 4)),
        (lambda v: v.unsqueeze(0).permute(2, 0, 1), lambda x: x[None].transpose(2, 0, 1)),
        (lambda v: v.permute((1, 0)), lambda x: x.T),
        (lambda v: v.unsqueeze(0).bmm(v.unsqueeze(0)), lambda x: (x @ x)[None]),
        (lambda v: v.clamp(min=2.0), lambda x: x.clip(2.0)),
    ],
)
def test_habits_of_pytorch_that_mean_the_same_here_work(
    call: Callable[[Any], wg.Value], plain: Callable[[Any], Any]
) -> None:
    np.testing.assert_allclose(call(wg.Value(MATRIX)).data, plain(MATRIX), 1e-15)


@pytest.mark.parametrize("name", ["grad", "value_and_grad", "jacobian", "hessian", "compile", "vmap", "run", "trace"])
def test_a_formula_in_place_of_a_function_leads_to_circuits(name: str) -> None:
    message = "expected a function; got 'x * y': for a formula write wg.circuit"
    with pytest.raises(OperandError, match=f"^{re.escape(message)}$"):
        getattr(wg, name)("x * y")


class OtherArray:
    """An array of a library that wiregrad does not know."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.ones((2, 2))


def test_an_array_of_another_library_is_to_be_converted() -> None:
    message = read_message(lambda v: v * OtherArray(), OperandError)

    assert message.startswith("multiply wants values, numbers or arrays; got OtherArray <")
    assert message.endswith("; write np.asarray(x)")


def test_a_label_is_a_name() -> None:
    a = wg.Value(2.0, label="a")
    b = a * a
    b.label = "b"

    assert (a.label, a.name, b.name) == ("a", "a", "b")


def test_a_graph_is_always_retained() -> None:
    a = wg.Value(3.0)
    b = a * a
    b.backward(retain_graph=True)
    b.backward()

    assert a.grad == 12.0
    a.zero_grad()
    assert a.grad is None


def test_hints_do_not_shadow_methods_and_add_no_getattr() -> None:
    shadowed = {name for name in vars(ForeignNames) if name in vars(wg.Value) and not name.startswith("__")}

    assert {"exp", "sum", "at", "view"} <= {*dir(wg.Value(1.0))}
    assert all(hasattr(wg.Value, name) for name in shadowed)
    assert not hasattr(wg.Value, "__getattr__")


# New data -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "start", [2.0, np.float32(2.0), np.array([1.0, -2.0]), np.array([1.0, 2.0], np.float32), np.array([1j, 2.0])]
)
def test_the_data_of_a_leaf_is_updated_in_a_training_loop(start: Any) -> None:
    w = wg.Value(start)
    first = (abs(w) ** 2).sum()
    first.backward()
    w.data -= 0.25 * w.grad
    w.grad = None
    second = (abs(w) ** 2).sum()
    second.backward()

    np.testing.assert_allclose(w.data, start / 2)
    np.testing.assert_allclose(w.grad, start)
    assert w.dtype == np.asarray(start).dtype
    w.grad = None
    first.backward()
    np.testing.assert_allclose(w.grad, 2 * start)


@pytest.mark.parametrize("operator", ["+=", "-=", "*=", "/=", "**=", "//=", "%="])
def test_every_augmented_assignment_updates_the_data(operator: str) -> None:
    model = {"w": wg.Value(np.array([5.0, 7.0])), "plain": np.array([5.0, 7.0])}
    exec(f"model['w'].data {operator} 2.0; model['plain'] {operator} 2.0", {"model": model})

    np.testing.assert_array_equal(model["w"].data, model["plain"])


def test_data_is_updated_in_a_long_loop_and_among_many_names() -> None:
    """Python specializes a loop after some turns, and names beyond the 255th take a longer instruction."""
    lines = [
        "def update(w):",
        *(f"    n{k} = other.n{k}" for k in range(300)),
        "    for _ in range(100): w.data += 1.0",
    ]
    scope: dict[str, Any] = {"other": SimpleNamespace(**{f"n{k}": k for k in range(300)})}
    exec("\n".join(lines), scope)
    w = wg.Value(np.zeros(2))
    scope["update"](w)

    assert w.data.tolist() == [100.0, 100.0]


def test_data_that_was_read_before_an_update_does_not_change() -> None:
    w = wg.Value(np.zeros(2))
    before = w.data
    w.data += 1.0

    assert before.tolist() == [0.0, 0.0]
    with pytest.raises(ValueError, match="read-only"):
        before += 1.0
    with pytest.raises(ValueError, match="read-only"):
        w.data[0] += 1.0


@pytest.mark.parametrize("start", [2.0, np.ones(2)])
def test_the_data_of_a_recorded_value_is_not_updated(start: Any) -> None:
    y = wg.Value(start) * 2.0

    with pytest.raises(MutationError, match="assign to a leaf"):
        y.data -= 1.0


# Functional updates -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("update", "wanted"),
    [
        (lambda at: at[1].set(5.0), [1.0, 5.0, 3.0]),
        (lambda at: at[1:].add(1.0), [1.0, 3.0, 4.0]),
        (lambda at: at[[0, 0]].add([1.0, 2.0]), [4.0, 2.0, 3.0]),
        (lambda at: at[[0, 0]].subtract([1.0, 2.0]), [-2.0, 2.0, 3.0]),
        (lambda at: at[[0, 2]].multiply([2.0, 3.0]), [2.0, 2.0, 9.0]),
        (lambda at: at[0].mul(3.0), [3.0, 2.0, 3.0]),
        (lambda at: at[1].divide(4.0), [1.0, 0.5, 3.0]),
        (lambda at: at[1:].power(2.0), [1.0, 4.0, 9.0]),
        (lambda at: at[:].min(2.5), [1.0, 2.0, 2.5]),
        (lambda at: at[:].max([2.0, 2.5, 0.0]), [2.0, 2.5, 3.0]),
        (lambda at: at[-1].apply(np.sqrt), [1.0, 2.0, 3.0**0.5]),
        (lambda at: at[np.array([True, False, True])].set(0.0), [0.0, 2.0, 0.0]),
    ],
)
def test_updates_in_the_words_of_jax_return_a_new_value(update: Callable[[Any], wg.Value], wanted: list[float]) -> None:
    x = wg.Value(np.array([1.0, 2.0, 3.0]))

    np.testing.assert_allclose(update(x.at).data, wanted, 1e-15)
    assert x.data.tolist() == [1.0, 2.0, 3.0]


def test_gradients_flow_through_updates() -> None:
    def f(x: Any, v: Any) -> Any:
        return np.sum(x.at[1].set(v).at[0].multiply(v) ** 2)

    x, v = np.array([1.0, 2.0, 3.0]), 5.0

    of_x, of_v = wg.grad(f, argnums=(0, 1))(x, v)

    assert (of_x.tolist(), of_v) == ([50.0, 0.0, 6.0], 20.0)


def test_an_update_that_would_be_applied_once_instead_of_twice_is_refused() -> None:
    with pytest.raises(IndexError, match="names an element twice"):
        wg.Value(np.ones(3)).at[[1, 1]].multiply(2.0)
    with pytest.raises(IndexError, match=r"x\.at\[\.\.\.\]: index 7 is out of bounds"):
        wg.Value(np.ones(3)).at[7].set(2.0)


RNG = np.random.default_rng(0)
SPARSE_LU = scipy.sparse.linalg.splu(scipy.sparse.csc_matrix(MATRIX))


def test_a_function_of_math_is_answered_with_the_function_of_numpy() -> None:
    message = read_message(lambda v: math.sqrt(v[0, 0] + 1.0), EscapeError)

    assert "silently lost; instead of `math.sqrt(v[0, 0] + 1.0)` write `np.sqrt(v[0, 0] + 1.0)`; for the " in message


@pytest.mark.parametrize(
    ("call", "mended"),
    [
        (lambda v: hypot(v[0, 0], v[0, 1]), "np.hypot(v[0, 0], v[0, 1])"),
        (lambda v: math.log(v[0, 0], 2), "np.log(v[0, 0]) / np.log(2)"),
        (lambda v: math.lgamma(v[0, 0]), "scipy.special.gammaln(v[0, 0])"),
        (lambda v: float(v[0, 0]) * v, "v[0, 0]"),
        (lambda v: np.float64(v[0, 0]) * v, "v[0, 0]"),
        (lambda v: RNG.normal(v[0], 2.0 * v[1], size=2), "v[0] + (2.0 * v[1]) * RNG.normal(size=2)"),
        (lambda v: RNG.uniform(0, v[0]), "(v[0]) * RNG.uniform()"),
        (lambda v: np.random.normal(loc=v[0]), "v[0] + np.random.normal()"),
        (lambda v: RNG.exponential(v[0], 2), "v[0] * RNG.exponential(size=2)"),
    ],
)
def test_the_line_that_takes_a_number_is_shown_mended(call: Callable[[Any], Any], mended: str) -> None:
    message = read_message(call, EscapeError)
    v = wg.Value(MATRIX)

    assert re.search(f"write `{re.escape(mended)}`(, which keeps the gradient, or .* for a log)?; for the ", message)
    assert isinstance(eval(mended, {"v": v, "np": np, "scipy": scipy, "RNG": RNG}), wg.Value)


@pytest.mark.parametrize(
    ("call", "number"),
    [
        (lambda v: float(v[0, 0]), "v[0, 0].item()"),
        (lambda v: np.float64(v[0, 0] * 2.0), "(v[0, 0] * 2.0).item()"),
        (lambda v: float(np.sum(v)), "np.sum(v).item()"),
        (lambda v: float(-v[0, 0]), "(-v[0, 0]).item()"),
    ],
)
def test_a_number_for_a_log_is_taken_as_the_message_says(call: Callable[[Any], Any], number: str) -> None:
    message = read_message(call, EscapeError)

    assert f"which keeps the gradient, or `{number}` for a log; " in message
    assert type(eval(number, {"v": wg.Value(MATRIX), "np": np})) is float


@pytest.mark.parametrize(
    ("call", "advice"),
    [
        (lambda v: RNG.gamma(v[0, 0]), "random numbers have no derivative by the parameters of their distribution"),
        (
            lambda v: "%.2f" % v[0, 0],  # noqa: UP031 - what people write
            'write an f-string, as in f"{v:.3f}"',
        ),
    ],
)
def test_random_numbers_and_texts_are_answered_with_what_to_write(call: Callable[[Any], Any], advice: str) -> None:
    assert advice in read_message(call, WiregradError)


def test_a_permutation_of_a_value_is_answered_with_an_index() -> None:
    with pytest.raises(NoRuleError, match=re.escape("write `v[RNG.permutation(len(v))]`")):
        wg.grad(lambda v: np.sum(RNG.permutation(v)))(MATRIX[0])


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda v: SPARSE_LU.solve(v[0]), "`SPARSE_LU.solve(v[0])`"),
        (lambda v: scipy.signal.upfirdn([1.0, 2.0], v[0], 2), "scipy.signal.upfirdn"),
        (lambda v: scipy.signal.sosfilt([[1.0, 0.0, 0.0, 1.0, 0.5, 0.0]], v[0] + 0.0), "scipy.signal.sosfilt"),
        (lambda v: np.lib.stride_tricks.as_strided(v, (1,), (8,)), "np.lib.as_strided"),
        (lambda v: np.ma.masked_array(v, mask=MATRIX > 2.0), "`np.ma.masked_array(v, mask=MATRIX > 2.0)`"),
        (lambda v: RNG.multivariate_normal(v[0], MATRIX), "`RNG.multivariate_normal(v[0], MATRIX)`"),
    ],
)
def test_an_error_of_compiled_code_about_a_value_names_the_call(call: Callable[[Any], Any], name: str) -> None:
    with pytest.raises(NoRuleError) as caught:
        wg.grad(lambda v: np.sum(call(v)))(MATRIX)

    assert str(caught.value).startswith(f"{name} has no rule: ")
    assert "test_messages.py:" in str(caught.value)


def test_an_attribute_error_of_the_users_own_line_is_left_alone() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nosuch'") as caught:
        wg.grad(lambda v: v.nosuch)(MATRIX)

    assert not isinstance(caught.value, WiregradError)


def test_a_whole_number_is_answered_with_the_number_to_write() -> None:
    with pytest.raises(GradientError, match=r"got int 3; write 3\.0"):
        wg.grad(lambda x: x**2)(3)


@pytest.mark.parametrize(
    ("call", "mended"),
    [
        (lambda v: math.fsum(v[0]), "np.sum(v[0])"),
        (lambda v: math.dist(v[0], v[1]), "np.linalg.norm(np.subtract(v[0], v[1]))"),
        (lambda v: math.hypot(*v[0]), "np.linalg.norm(wg.array([*v[0]]))"),
        (lambda v: math.hypot(v[0, 0], 1.0, 2.0), "np.linalg.norm(wg.array([v[0, 0], 1.0, 2.0]))"),
    ],
)
def test_functions_of_math_on_several_numbers_are_shown_mended(call: Callable[[Any], Any], mended: str) -> None:
    message = read_message(call, EscapeError)
    wanted = call(MATRIX)

    assert f"write `{mended}`; for the number alone" in message
    assert eval(mended, {"v": wg.Value(MATRIX), "np": np, "wg": wg}).data == pytest.approx(wanted)


@pytest.mark.parametrize("number", [fractions.Fraction(1, 3), decimal.Decimal("0.5")])
@pytest.mark.parametrize("x", [wg.Value(2.0), wg.Value(np.ones(2))])
def test_a_fraction_or_decimal_is_answered_with_a_float(x: Any, number: Any) -> None:
    with pytest.raises(OperandError, match=re.escape(f"; write float({number!r})")):
        x * number


def test_an_unknown_function_of_plain_numbers_is_named() -> None:
    with pytest.raises(EscapeError, match=r"`statistics\.fmean\(.*\)` reads plain numbers; write NumPy's"):
        statistics.fmean(wg.Value(MATRIX)[0])


def test_the_arguments_of_an_embedding_are_told_apart() -> None:
    with pytest.raises(IndexError, match=r"embedding\(input, weight\) takes whole numbers first; got float64"):
        wg.embedding(wg.Value(MATRIX), np.array([0, 1]))


@pytest.mark.parametrize("transform", [wg.grad, wg.value_and_grad, wg.jacobian, lambda f: lambda x: wg.trace(f, x)])
@pytest.mark.parametrize("f", [lambda x: wg.Value(x) * x, lambda x: wg.Value(2.0 * x) * 2.0])
def test_a_leaf_made_from_what_is_differentiated_is_refused(f: Callable[[Any], Any], transform: Any) -> None:
    with pytest.raises(EscapeError, match="the gradient of v would be silently lost; write v itself"):
        transform(f)(3.0)


def test_a_leaf_is_made_from_a_value_outside_of_transforms() -> None:
    w = wg.Value(2.0)
    again = wg.Value(w * w)

    assert again.data == 4.0
    assert again.op is None


def test_values_in_a_list_lead_to_wg_array() -> None:
    assert "to join recorded values write wg.array" in read_message(
        lambda v: wg.Value([v[0, 0], v[0, 1]]), OperandError
    )


def test_a_number_has_no_elements_to_assign_to() -> None:
    def fill(x: Any) -> Any:
        y = x.copy()
        y[0] = 5.0
        return y

    with pytest.raises(MutationError, match="a recorded number has no elements to assign to"):
        wg.grad(fill)(2.0)


def test_a_power_that_is_written_as_xor_is_answered() -> None:
    assert "np.bitwise_xor has no rule: a power is written x**2; " in read_message(lambda v: v[0, 0] ^ 2, NoRuleError)


def test_the_gradient_of_an_updated_parameter_leads_to_its_data() -> None:
    w = wg.Value(1.0)
    (w * w).backward()
    w = w - 0.1 * w.grad
    with pytest.raises(MutationError, match=re.escape("replaced it: write w.data = w.data - step")):
        w.grad = 0


@pytest.mark.parametrize(("file", "is_shown"), [("<string>", False), ("<ipython-input-1>", True)])
def test_lines_of_executed_text_are_not_mixed_up(file: str, is_shown: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    other = "import something(else)\n"
    monkeypatch.setitem(linecache.cache, file, (len(other), None, [other], file))

    assert read_line_of_code(file, 1) == (other if is_shown else "")


class Bundle:
    """An object that is no container of numbers."""

    def __init__(self, w: Any) -> None:
        self.w = w


def test_an_object_as_an_argument_is_answered_with_a_dataclass() -> None:
    advice = "make Bundle a dataclass, register it with wg.register_container, or pass what it holds"
    with pytest.raises(OperandError, match=re.escape(advice)):
        wg.grad(lambda bundle: np.sum(bundle.w**2))(Bundle(np.ones(2)))

    gradient = wg.grad(lambda parts: np.sum(Bundle(**parts).w ** 2))(vars(Bundle(np.ones(2))))
    assert gradient["w"].tolist() == [2.0, 2.0]


@pytest.mark.parametrize(
    ("draw", "advised", "written"),
    [
        (
            lambda rng, m, c: rng.multivariate_normal(m, c, 4),
            lambda rng, m, c: m + rng.normal(size=(4, len(m))) @ np.linalg.cholesky(c).T,
            "write `m + rng.normal(size=(4, len(m))) @ np.linalg.cholesky(c).T`",
        ),
        (
            lambda rng, m, c: rng.lognormal(m[0], c[0, 0], 5),
            lambda rng, m, c: np.exp(m[0] + c[0, 0] * rng.normal(size=5)),
            "write `np.exp(m[0] + c[0, 0] * rng.normal(size=5))`",
        ),
        (
            lambda rng, m, c: np.random.default_rng(1).normal(m[0], c[0, 0], 3).sum(),
            lambda rng, m, c: (m[0] + c[0, 0] * np.random.default_rng(1).normal(size=3)).sum(),
            "write `m[0] + c[0, 0] * np.random.default_rng(1).normal(size=3)`",
        ),
    ],
)
def test_a_draw_with_recorded_parameters_is_answered_with_one_that_has_a_gradient(
    draw: Callable[..., Any], advised: Callable[..., Any], written: str
) -> None:
    mean, covariance = np.array([0.5, -1.0]), np.array([[2.0, 0.3], [0.3, 1.0]])

    with pytest.raises(WiregradError, match=re.escape(written)):
        wg.grad(lambda m: np.sum(draw(np.random.default_rng(0), m, covariance)))(mean)
    slopes = wg.grad(lambda m: np.sum(advised(np.random.default_rng(0), m, covariance)))(mean)
    assert np.isfinite(slopes).all()
    many = [advised(np.random.default_rng(k), mean, covariance) for k in range(200)]
    same = [draw(np.random.default_rng(k), mean, covariance) for k in range(200)]
    assert np.allclose(np.mean(many), np.mean(same), rtol=0.2, atol=0.2)


def test_a_masked_array_is_answered_with_a_choice_that_has_the_gradient() -> None:
    masked = np.ma.masked_invalid([1.0, np.nan, 3.0])

    def misfit(p: Any, y: Any) -> Any:
        return (y - p) ** 2

    advice = "compute y with m.filled(0.0) and choose, np.where(m.mask, 0.0, y)"
    with pytest.raises(OperandError, match=re.escape(advice)):
        wg.grad(lambda p: np.sum(misfit(p, masked)))(0.5)
    gradient = wg.grad(lambda p: np.sum(np.where(masked.mask, 0.0, misfit(p, masked.filled(0.0)))))(0.5)

    assert gradient == -2.0 * (0.5 + 2.5)
