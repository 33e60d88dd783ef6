"""The registry of functions made of ops, the helpers that all of them use, and the functions that are refused.

`register_function` adds a function under its own name and for NumPy functions. The helpers read arguments (`lift`,
`dtype_of`, `ndim_of`) and list calls at which a function is checked (`sample_calls`).

Which ops a function such as `einsum` or `diagonal` applies depends on the shapes of its operands alone, and finding
them takes longer than applying them to small arrays. So it has a plan: the function is run once on wires that have
nothing but a shape, and written down as a list of ops; after that only the ops are applied.

A function of NumPy or SciPy in `REFUSALS` has no derivative, or none here. It raises for recorded values, with its
sentence, which says what to write instead, as the hint; conditions and whole numbers are passed to NumPy. A test
compares the table with the functions that NumPy has. `SOLVER_REMEDIES` has those of `scipy.optimize`.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache, wraps
from math import prod
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np

from wiregrad.dtypes import WireType
from wiregrad.errors import NoRuleError, RecordError, format_user_line, require_package
from wiregrad.ir.op import Op, OperatorMethods
from wiregrad.lazy import NamedTuple, import_later, record
from wiregrad.ops.gradient_flow import is_wire, shape_of

SampleMaker: TypeAlias = "Callable[[np.random.Generator], Sequence[tuple[Any, ...]]]"
"""Makes calls at which a function is checked: tuples of positional arguments and, last, a dict of keywords."""


@record
class RegisteredFunction:
    """One function: its name, the NumPy functions it stands for, and its implementation."""

    name: str
    run: Callable[..., Any]
    numpy: tuple[Any, ...] = ()
    """The NumPy functions that it stands for."""
    scipy: tuple[str, ...] = ()
    """The dotted names of the SciPy functions that it stands for; SciPy itself is not imported for them."""
    method: bool = False
    """Whether values have it as a method."""
    samples: SampleMaker | None = None
    """Calls at which it is checked; None for functions without a gradient."""
    calls_back: bool = False
    """Whether it calls a function of the user's, which may use values from outside."""
    decides: Callable[..., bool] | None = None
    """Tells from the arguments whether values from outside decide in such a function, though it returns none."""
    refuses: bool = False
    """Whether it refuses every recorded value, those that a function among its arguments uses included."""
    keeps_lists: bool = False
    """Whether lists of values among its arguments stay lists, and are not made one value."""

    @property
    def doc(self) -> str:
        """The first line of its documentation."""
        return (self.run.__doc__ or "").strip().split("\n")[0]

    @property
    def is_listed(self) -> bool:
        """Whether `dir(wiregrad)` lists it: not if people write it otherwise, as an operator, a method or a ufunc's."""
        if not self.name.isidentifier():
            # `special.softmax` and `norm.logpdf` are reached by SciPy's names alone.
            return False
        if self.numpy:
            return any(getattr(function, "__name__", None) == self.name for function in self.numpy)
        is_array_method = hasattr(np.ndarray, self.name) or hasattr(np.ndarray, f"__{self.name}__")
        return hasattr(np, self.name) or not is_array_method


class DeferredFunctions:
    """The modules of functions that most programs never call: they are loaded when a function is not found elsewhere.

    They have no methods of values, and none of NumPy's functions that are ops. Loading them imports no other package.
    """

    def __init__(self) -> None:
        self._import_modules: Callable[[], None] | None = None
        self._is_complete = True
        self._lock = threading.RLock()

    def defer(self, *modules: str) -> None:
        """Set the modules to load later."""
        self._import_modules = import_later(*modules)
        self._is_complete = False

    def load(self) -> None:
        """Load the modules, once; another thread waits until all are loaded."""
        if self._is_complete:
            return
        with self._lock:
            import_modules, self._import_modules = self._import_modules, None
            if import_modules is not None:
                import_modules()
                self._is_complete = True


DEFERRED_FUNCTIONS = DeferredFunctions()
FunctionKey = TypeVar("FunctionKey")


class FunctionIndex(MutableMapping[FunctionKey, RegisteredFunction]):
    """Functions by a key. To look for a key that is not there, or to list them all, loads the deferred ones."""

    def __init__(self) -> None:
        self.loaded: dict[FunctionKey, RegisteredFunction] = {}
        """The functions of the modules that are loaded."""

    def __getitem__(self, key: FunctionKey) -> RegisteredFunction:
        entry = self.loaded.get(key)
        if entry is None:
            DEFERRED_FUNCTIONS.load()
            entry = self.loaded[key]
        return entry

    def __setitem__(self, key: FunctionKey, entry: RegisteredFunction) -> None:
        self.loaded[key] = entry

    def __delitem__(self, key: FunctionKey) -> None:
        DEFERRED_FUNCTIONS.load()
        del self.loaded[key]

    def __iter__(self) -> Iterator[FunctionKey]:
        DEFERRED_FUNCTIONS.load()
        return iter(self.loaded)

    def __len__(self) -> int:
        DEFERRED_FUNCTIONS.load()
        return len(self.loaded)


FUNCTIONS: FunctionIndex[str] = FunctionIndex()
"""Every function by name."""
FUNCTIONS_BY_NUMPY: FunctionIndex[Any] = FunctionIndex()
"""Every function by the NumPy function it stands for."""
FUNCTIONS_BY_SCIPY: FunctionIndex[str] = FunctionIndex()
"""Every function by the dotted name of the SciPy function it stands for."""


def register_function(
    *numpy: Any,
    scipy: tuple[str, ...] = (),
    method: bool = False,
    samples: SampleMaker | None = None,
    name: str | None = None,
    calls_back: bool = False,
    decides: Callable[..., bool] | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the decorated function under its own name, for NumPy functions and for SciPy functions by name."""

    def add_entry(run: Callable[..., Any]) -> Callable[..., Any]:
        entry = RegisteredFunction(
            name or run.__name__.rstrip("_"), run, numpy, scipy, method, samples, calls_back, decides
        )
        if entry.name in FUNCTIONS.loaded:
            raise RecordError(f"a function named {entry.name} is registered already; give this one another name")
        run.__name__ = run.__qualname__ = entry.name
        FUNCTIONS[entry.name] = entry
        FUNCTIONS_BY_NUMPY.loaded.update(dict.fromkeys(numpy, entry))
        FUNCTIONS_BY_SCIPY.loaded.update(dict.fromkeys(scipy, entry))
        return run

    return add_entry


def register_scipy_method(
    *names: str, calls_back: bool = False, refuses: bool = False, keeps_lists: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the decorated function for methods of SciPy's classes, which it is called with, by dotted name.

    Also for functions that make or take SciPy's own objects. None of them is a function of wiregrad's.
    """

    def add_method(run: Callable[..., Any]) -> Callable[..., Any]:
        entry = RegisteredFunction(
            run.__name__, run, scipy=names, calls_back=calls_back, refuses=refuses, keeps_lists=keeps_lists
        )
        FUNCTIONS_BY_SCIPY.loaded.update(dict.fromkeys(names, entry))
        return run

    return add_method


def load_scipy(name: str) -> Any:
    """Return a module of SciPy, for functions that take coefficients or plain results from it."""
    with require_package("scipy", name):
        import_later(name)()
    return sys.modules[name]


def find_plain_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a SciPy function as it was before it was taught to look for values."""
    plain: Callable[..., Any] = getattr(function, "__wrapped__", function)
    return plain


PAUSE_BLOCKS: list[Callable[[], AbstractContextManager[None]]] = []
"""Makes a block in which values are computed with but nothing is recorded; added by the front end."""


def pause_recording() -> AbstractContextManager[None]:
    """Return a block in which nothing is recorded, for what is computed from numbers only to choose steps."""
    return PAUSE_BLOCKS[0]() if PAUSE_BLOCKS else nullcontext()


BREAK_POINT_MODULES: list[Any] = []
"""The module that finds where a function of a number changes the side of a condition; added by the front end."""


def find_break_points(function: Callable[[Any], Any], points: Sequence[float]) -> list[Any]:
    """Return the places between points, which increase, at which a function changes the side of a condition.

    A place is a value if it depends on one.
    """
    return [place for module in BREAK_POINT_MODULES for place in module.find_break_points(function, points)]


def hide_inner_integral() -> AbstractContextManager[bool]:
    """Return a block for an integral, whose conditions are not those of a function around it.

    It is true while such a function is searched, which needs no more than a rough value.
    """
    return BREAK_POINT_MODULES[0].hide_inner_integral() if BREAK_POINT_MODULES else nullcontext(False)


def warn_of_moving_jump(
    rate: Callable[[Any, Any], Any], name: str, times: Sequence[float], states: Sequence[Any]
) -> None:
    """Warn if the right side of a differential equation jumps along a solution, at a place that moves with values."""
    for module in BREAK_POINT_MODULES:
        module.warn_of_moving_jump(rate, name, times, states)


def reads_values(function: Callable[[Any], Any], points: Sequence[float], *, lifts: bool = True) -> bool:
    """Return whether a function of a number reads values from outside, if only in conditions.

    With `lifts`, the number is given as a value if the function can take one.
    """
    return any(module.reads_values(function, points, lifts=lifts) for module in BREAK_POINT_MODULES)


class WireFoundError(Exception):
    """NumPy asked a wire for an array, while a list was read that may have wires in it."""


class ConversionState(threading.local):
    """What a wire does in each thread when NumPy asks it for an array."""

    def __init__(self) -> None:
        self.refuses_wires = False
        """Whether it raises `WireFoundError`."""


CONVERSION = ConversionState()


class FilledMemory:
    """Counts the arrays that stand for wires, with nothing but NaN in their memory."""

    count = 0


def lift(x: Any) -> Any:
    """Convert a number or list to an array, or to one wire if there are wires in it; wires are returned unchanged."""
    if type(x) is np.ndarray:
        return x if x.dtype.kind != "O" else FUNCTIONS["array"].run(x)
    if is_wire(x) or isinstance(x, np.generic):
        return x
    if isinstance(x, np.ndarray):
        return x if x.dtype.kind != "O" else FUNCTIONS["array"].run(x)
    return FUNCTIONS["array"].run(x) if isinstance(x, list | tuple) else np.asarray(x)


def is_sparse(x: Any) -> bool:
    """Return whether x is a sparse matrix, SciPy's or one with recorded entries."""
    return hasattr(type(x), "tocoo")


def ndim_of(x: Any) -> int:
    """Return the number of axes."""
    return len(shape_of(x))


def dtype_of(x: Any) -> np.dtype[Any]:
    """Return the dtype of a wire, or the dtype that NumPy gives x."""
    dtype: np.dtype[Any] = x.dtype if hasattr(x, "dtype") else np.asarray(x).dtype
    return dtype


def detach_array(x: Any) -> Any:
    """Return the value of a wire as an array without a gradient, and anything else as an array."""
    return np.asarray(x.data if is_wire(x) else x)


def replace_length(shape: tuple[int, ...], axis: int, *lengths: int) -> tuple[int, ...]:
    """Return a shape with one axis, counted from the end, replaced by axes of other lengths.

    >>> replace_length((2, 3, 4), -2, 5, 6)
    (2, 5, 6, 4)
    """
    place = axis + len(shape)
    return shape[:place] + lengths + shape[place + 1 :]


NUMBER = np.dtype(float)


class PlannedOp(NamedTuple):
    """One op of a plan, and the numbers of its operands: first those of the plan, then the results of its ops."""

    op: Op | None
    sources: tuple[Any, ...]
    """If the op is None, the result: one plain number."""


class OpPlan:
    """The ops that a function applies to operands of given shapes."""

    def __init__(self, function: Callable[..., Any], shapes: Sequence[tuple[int, ...]]) -> None:
        self.steps: list[PlannedOp] = []
        self._shapes = list(shapes)
        result: PlannedWire = function(*[PlannedWire(self, number) for number in range(len(shapes))])
        self.result = result.number

    def shape_at(self, number: int) -> tuple[int, ...]:
        """Return the shape of an operand or of the result of an op."""
        return self._shapes[number]

    def add_op(self, op: Op, operands: Sequence[Any]) -> PlannedWire:
        """Note that an op is applied."""
        numbers = tuple([x.number if isinstance(x, PlannedWire) else self._add_number(x) for x in operands])
        return self._add_step(PlannedOp(op, numbers), _infer_shape(op, [self._shapes[k] for k in numbers]))

    def _add_number(self, x: Any) -> int:
        if type(x) is not float:
            raise TypeError(f"the operands of a plan are wires and floats; got {type(x).__name__}")
        return self._add_step(PlannedOp(None, (x,)), ()).number

    def _add_step(self, step: PlannedOp, shape: tuple[int, ...]) -> PlannedWire:
        self.steps.append(step)
        self._shapes.append(shape)
        return PlannedWire(self, len(self._shapes) - 1)

    def run(self, operands: Sequence[Any]) -> Any:
        """Apply the ops to arrays or wires of the shapes that the plan was made for."""
        wires = list(operands)
        for op, sources in self.steps:
            wires.append(sources[0] if op is None else op(*[wires[k] for k in sources]))
        return wires[self.result]


class PlannedWire(OperatorMethods):
    """Stands for an array while a plan is made: it has a shape, and notes the ops that are applied to it."""

    __slots__ = ("number", "plan")

    def __init__(self, plan: OpPlan, number: int) -> None:
        self.plan = plan
        self.number = number

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape."""
        return self.plan.shape_at(self.number)

    def __wiregrad_apply__(self, op: Op, operands: Sequence[Any]) -> PlannedWire:
        return self.plan.add_op(op, operands)


def _infer_shape(op: Op, shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    if op.by_element:
        return np.broadcast_shapes(*shapes)
    return op.infer(tuple([WireType(NUMBER, shape) for shape in shapes])).shape


MAX_PLANNED_ELEMENTS = 2048
"""Arrays with more elements take longer than finding the ops to apply to them."""
PLAIN_SETTINGS = frozenset([int, float, bool, str, type(None)])
"""Types of settings that a plan may be kept for; a setting of another type may be recorded itself."""
Function = TypeVar("Function", bound=Callable[..., Any])


def plan_by_shape(function: Function) -> Function:
    """Let a function of one array keep its plan for each shape; which ops it applies must depend on nothing else.

    Its other arguments are settings.
    """

    @lru_cache(maxsize=1024, typed=True)
    def make_plan(shape: tuple[int, ...], names: tuple[str, ...], *settings: Any) -> OpPlan:
        # The settings are arguments of their own: a cache tells 1, 1.0 and True apart as arguments, not in tuples.
        count = len(settings) - len(names)
        named = dict(zip(names, settings[count:], strict=True))
        return OpPlan(lambda x: function(x, *settings[:count], **named), (shape,))

    @wraps(function)
    def run_plan(x: Any, *args: Any, **kwargs: Any) -> Any:
        x = lift(x)
        shape = shape_of(x)
        if prod(shape) > MAX_PLANNED_ELEMENTS:
            return function(x, *args, **kwargs)
        for setting in (*args, *kwargs.values()) if kwargs else args:
            if type(setting) not in PLAIN_SETTINGS and not _is_plain_tuple(setting):
                return function(x, *args, **kwargs)
        return make_plan(shape, tuple(kwargs), *args, *kwargs.values()).run((x,))

    return cast(Function, run_plan)


def _is_plain_tuple(setting: Any) -> bool:
    """Return whether a setting is a tuple of whole numbers, such as axes and shapes."""
    return type(setting) is tuple and {int}.issuperset(map(type, setting))


class N(tuple[int, ...]):
    """Stands for an array of normal random numbers of a shape in a list of sample calls."""

    def __new__(cls, *shape: int) -> N:
        """Make one from the lengths of its axes."""
        return super().__new__(cls, shape)


def sample_calls(*calls: Any) -> SampleMaker:
    """Return a sampler of calls to check a function at; each `N(...)` is drawn anew, and keywords may be left out.

    >>> sample_calls((N(2), 3.0))(np.random.default_rng(0))[0][1:]
    (3.0, {})
    """

    def draw_part(rng: np.random.Generator, part: Any) -> Any:
        if isinstance(part, N):
            return rng.normal(size=part)
        return [draw_part(rng, piece) for piece in part] if isinstance(part, list) else part

    def draw_calls(rng: np.random.Generator) -> list[tuple[Any, ...]]:
        with_keywords = [call if isinstance(call[-1], dict) else (*call, {}) for call in calls]
        return [tuple(draw_part(rng, part) for part in call) for call in with_keywords]

    return draw_calls


_WHOLE_NUMBERS = "it takes whole numbers or bools; compare a value first (x > 0), or give it np.int64(x.data)"
_STEP = "it depends on the bits of a number, not on its size; take it of x.data"
_FILE = "a file holds no gradient; write x.data"
_DATES = "it takes dates, and no gradient flows to a date"
_COMPLEX = "its result is complex only for some numbers; write {}"

REFUSALS: dict[Any, str] = {
    **dict.fromkeys(
        (
            np.bitwise_and,
            np.bitwise_or,
            np.bitwise_count,
            np.invert,
            np.left_shift,
            np.right_shift,
            np.gcd,
            np.lcm,
            np.packbits,
            np.unpackbits,
            np.ix_,
            np.unravel_index,
            np.ravel_multi_index,
        ),
        _WHOLE_NUMBERS,
    ),
    np.bitwise_xor: f"a power is written x**2; {_WHOLE_NUMBERS}",
    **dict.fromkeys((np.nextafter, np.spacing), _STEP),
    **dict.fromkeys((np.save, np.savez, np.savez_compressed, np.savetxt), _FILE),
    **dict.fromkeys((np.busday_count, np.busday_offset, np.is_busday, np.datetime_as_string, np.isnat), _DATES),
    **dict.fromkeys(
        (np.may_share_memory, np.shares_memory), "a recorded value shares its memory with nothing that can be written"
    ),
    **dict.fromkeys(
        (np.histogram2d, np.histogramdd),
        "write np.bincount(i * n + j, weights) with the bins i and j of np.digitize, reshaped to (-1, n)",
    ),
    **dict.fromkeys(
        (np.intersect1d, np.setxor1d), "write u = np.unique(x) and pick u[np.isin(u.data, y)], or ~ of that mask"
    ),
    np.emath.sqrt: _COMPLEX.format("np.sqrt(x), or np.sqrt(x.astype(complex))"),
    np.emath.log: _COMPLEX.format("np.log(x), or np.log(x.astype(complex))"),
    np.emath.log2: _COMPLEX.format("np.log(x.astype(complex)) / np.log(2.0)"),
    np.emath.log10: _COMPLEX.format("np.log(x.astype(complex)) / np.log(10.0)"),
    np.emath.logn: _COMPLEX.format("np.log(x) / np.log(n)"),
    np.emath.power: _COMPLEX.format("x ** p, or x.astype(complex) ** p"),
    np.emath.arccos: _COMPLEX.format("np.arccos(x)"),
    np.emath.arcsin: _COMPLEX.format("np.arcsin(x)"),
    np.emath.arctanh: _COMPLEX.format("np.arctanh(x)"),
}
"""What to write instead of each NumPy function that has no rule."""


SCIPY_SPELLINGS: dict[str, str] = {
    "scipy.special.rgamma": "1.0 / scipy.special.gamma(x)",
    "scipy.special.exprel": "np.expm1(x) / x",
    "scipy.special.cosm1": "-2.0 * np.sin(x / 2.0) ** 2",
    "scipy.special.cosdg": "np.cos(np.deg2rad(x))",
    "scipy.special.sindg": "np.sin(np.deg2rad(x))",
    "scipy.special.tandg": "np.tan(np.deg2rad(x))",
    "scipy.special.cotdg": "1.0 / np.tan(np.deg2rad(x))",
    "scipy.special.radian": "np.deg2rad(x + m / 60.0 + s / 3600.0)",
    "scipy.special.diric": "np.sin(n * x / 2.0) / (n * np.sin(x / 2.0))",
    "scipy.special.perm": "scipy.special.gamma(x + 1.0) / scipy.special.gamma(x - k + 1.0)",
    "scipy.special.poch": "scipy.special.gamma(x + m) / scipy.special.gamma(x)",
    "scipy.special.eval_legendre": "np.polynomial.legendre.legval(x, np.eye(n + 1)[n])",
    "scipy.special.eval_chebyt": "np.polynomial.chebyshev.chebval(x, np.eye(n + 1)[n])",
    "scipy.special.eval_hermite": "np.polynomial.hermite.hermval(x, np.eye(n + 1)[n])",
    "scipy.special.eval_hermitenorm": "np.polynomial.hermite_e.hermeval(x, np.eye(n + 1)[n])",
    "scipy.special.eval_laguerre": "np.polynomial.laguerre.lagval(x, np.eye(n + 1)[n])",
    "scipy.special.eval_chebyu": "np.sin((n + 1) * np.arccos(x)) / np.sin(np.arccos(x))",
    "scipy.special.boxcox": "(x**p - 1.0) / p",
    "scipy.special.boxcox1p": "np.expm1(p * np.log1p(x)) / p",
    "scipy.special.inv_boxcox": "(p * x + 1.0) ** (1.0 / p)",
    "scipy.special.inv_boxcox1p": "np.expm1(np.log1p(p * x) / p)",
    "scipy.special.chdtr": "scipy.special.gammainc(v / 2.0, x / 2.0)",
    "scipy.special.chdtrc": "scipy.special.gammaincc(v / 2.0, x / 2.0)",
    "scipy.special.gdtr": "scipy.special.gammainc(b, a * x)",
    "scipy.special.gdtrc": "scipy.special.gammaincc(b, a * x)",
    "scipy.special.fdtr": "scipy.special.betainc(a / 2.0, b / 2.0, a * x / (b + a * x))",
    "scipy.special.pdtr": "scipy.special.gammaincc(np.floor(k) + 1.0, x)",
    "scipy.signal.hilbert": (
        "np.fft.ifft(np.fft.fft(x) * np.fft.fft(scipy.signal.hilbert(np.eye(1, len(x))[0]))), the same numbers"
    ),
    "scipy.signal.savgol_filter": (
        "scipy.ndimage.convolve1d(x, scipy.signal.savgol_coeffs(n, k), mode='nearest'), its mode='nearest'"
    ),
    "scipy.signal.sosfilt": "for row in sos: x = scipy.signal.lfilter(row[:3], row[3:], x)",
    "scipy.signal.upfirdn": "np.convolve(h, u), with u = np.zeros(up * (len(x) - 1) + 1); u[::up] = x, and [::down]",
    "scipy.signal.chirp": "np.cos(2.0 * np.pi * (f0 * x + (f1 - f0) / t1 * x**2 / 2.0))",
    "scipy.signal.sawtooth": "x / np.pi % 2.0 - 1.0",
    "scipy.signal.square": "np.where(x / np.pi % 2.0 < 1.0, 1.0, -1.0)",
    "scipy.signal.medfilt": "np.median(np.lib.stride_tricks.sliding_window_view(np.pad(x, n // 2), n), axis=-1)",
    "scipy.signal.sosfiltfilt": "scipy.signal.sosfiltfilt(sos, np.eye(len(x)), axis=0) @ x",
    "scipy.signal.resample_poly": "scipy.signal.resample_poly(np.eye(len(x)), up, down) @ x",
    "scipy.signal.decimate": "scipy.signal.decimate(np.eye(len(x)), n, axis=0) @ x",
    "scipy.signal.find_peaks": "places = scipy.signal.find_peaks(x.data)[0], which are whole numbers, and x[places]",
    "scipy.signal.butter": (
        "a filter of plain numbers, as with x.data; a cutoff that is learnt is that of np.fft.irfft(np.fft.rfft(y) * "
        "response(x))"
    ),
    "scipy.signal.lsim": "wg.odeint(lambda t, z: A @ z + B @ np.interp(t, times, x), z0, times).ys",
    "scipy.linalg.eigvals": "np.linalg.eigvals(x)",
    "scipy.linalg.eig": "np.linalg.eig(x)",
    "scipy.linalg.companion": "np.vstack([-x[1:] / x[0], np.eye(len(x) - 2, len(x) - 1)])",
    "scipy.linalg.eigvalsh_tridiagonal": "np.linalg.eigvalsh(np.diag(x) + np.diag(e, 1) + np.diag(e, -1))",
    "scipy.linalg.eigh_tridiagonal": "np.linalg.eigh(np.diag(x) + np.diag(e, 1) + np.diag(e, -1))",
    "scipy.ndimage.median_filter": (
        "np.median(np.lib.stride_tricks.sliding_window_view(np.pad(x, n // 2, mode='symmetric'), n), axis=-1)"
    ),
    "scipy.ndimage.maximum_filter": (
        "np.max(np.lib.stride_tricks.sliding_window_view(np.pad(x, n // 2, mode='symmetric'), n), axis=-1)"
    ),
    "scipy.ndimage.minimum_filter": (
        "np.min(np.lib.stride_tricks.sliding_window_view(np.pad(x, n // 2, mode='symmetric'), n), axis=-1)"
    ),
    "scipy.ndimage.grey_dilation": (
        "np.max(np.lib.stride_tricks.sliding_window_view(np.pad(x, n // 2, mode='symmetric'), n), axis=-1)"
    ),
    "scipy.ndimage.grey_erosion": (
        "np.min(np.lib.stride_tricks.sliding_window_view(np.pad(x, n // 2, mode='symmetric'), n), axis=-1)"
    ),
    "scipy.interpolate.UnivariateSpline": "scipy.interpolate.CubicSpline(points, x)(at), which passes through them",
    "scipy.interpolate.InterpolatedUnivariateSpline": "scipy.interpolate.make_interp_spline(points, x)(at)",
    "scipy.interpolate.splrep": "scipy.interpolate.make_interp_spline(points, x)(at)",
    "scipy.interpolate.Akima1DInterpolator": "scipy.interpolate.PchipInterpolator(points, x)(at), another curve",
    "scipy.interpolate.KroghInterpolator": "scipy.interpolate.BarycentricInterpolator(points, x)(at)",
    "scipy.interpolate.RectBivariateSpline": (
        "scipy.interpolate.make_interp_spline(b, scipy.interpolate.make_interp_spline(a, x)(p), axis=-1)(q)"
    ),
    "scipy.interpolate.BSpline": "scipy.interpolate.BSpline(t, np.eye(len(x)), k)(at) @ x",
    "scipy.interpolate.RegularGridInterpolator": (
        "scipy.interpolate.RegularGridInterpolator(grid, np.eye(x.size).reshape(*x.shape, -1))(at) @ x.ravel()"
    ),
    "scipy.interpolate.interpn": (
        "scipy.interpolate.interpn(grid, np.eye(x.size).reshape(*x.shape, -1), at) @ x.ravel()"
    ),
    "scipy.interpolate.griddata": "scipy.interpolate.griddata(points, np.eye(len(x)), at) @ x",
    "scipy.interpolate.RBFInterpolator": "scipy.interpolate.RBFInterpolator(points, np.eye(len(x)))(at) @ x",
    "scipy.interpolate.NearestNDInterpolator": "x[scipy.spatial.KDTree(points).query(at)[1]]",
    "scipy.interpolate.make_smoothing_spline": (
        "scipy.interpolate.make_smoothing_spline(points, np.eye(len(x)), lam=lam)(at) @ x, with lam given"
    ),
    "scipy.interpolate.make_lsq_spline": "scipy.interpolate.make_lsq_spline(points, np.eye(len(x)), t, k)(at) @ x",
    "scipy.integrate.solve_bvp": (
        "wg.root(lambda y, p: residuals(y, p), y0, p), with the collocation equations of the solution y at points"
    ),
    "scipy.integrate.tanhsinh": "scipy.integrate.quad(f, a, b)[0]",
    "scipy.integrate.quad_vec": "np.array([scipy.integrate.quad(lambda s: f(s)[k], a, b)[0] for k in range(n)])",
    "scipy.integrate.cumulative_simpson": "scipy.integrate.cumulative_trapezoid(x, points), which is less accurate",
    "scipy.ndimage.maximum": "np.array([np.max(x[labels == k]) for k in index])",
    "scipy.ndimage.minimum": "np.array([np.min(x[labels == k]) for k in index])",
    "scipy.stats.pearsonr": "np.corrcoef(x, y)[0, 1]",
    "scipy.stats.moment": "np.mean((x - np.mean(x)) ** k)",
    "scipy.stats.iqr": "np.subtract(*np.percentile(x, [75, 25]))",
    "scipy.stats.variation": "np.std(x) / np.mean(x)",
    "scipy.stats.ttest_1samp": "(np.mean(x) - m) / (np.std(x, ddof=1) / np.sqrt(len(x)))",
    "scipy.stats.ttest_ind": (
        "(np.mean(x) - np.mean(y)) / np.sqrt((np.var(x, ddof=1) * (len(x) - 1) + np.var(y, ddof=1) * (len(y) - 1)) "
        "/ (len(x) + len(y) - 2) * (1.0 / len(x) + 1.0 / len(y)))"
    ),
    "scipy.stats.yeojohnson": (
        "np.where(x < 0.0, -((1.0 - x) ** (2.0 - p) - 1.0) / (2.0 - p), ((x + 1.0) ** p - 1.0) / p)"
    ),
    "scipy.stats.binned_statistic": "np.bincount(bins, x) / np.bincount(bins), with the bins of np.digitize",
    "scipy.stats.chisquare": "np.sum((x - expected) ** 2 / expected)",
    "scipy.stats.boxcox": "(x**p - 1.0) / p",
    "scipy.stats.tmean": "np.mean(x[(x >= low) & (x <= high)])",
    "scipy.stats.circvar": "1.0 - np.hypot(np.mean(np.sin(x)), np.mean(np.cos(x)))",
    "scipy.stats.wasserstein_distance": "np.mean(np.abs(np.sort(x) - np.sort(y))), for samples of equal size",
    "scipy.stats.gaussian_kde": "np.mean(scipy.stats.norm.pdf(at[:, None], x, width), axis=1)",
    "scipy.stats.norm.isf": "-scipy.stats.norm.ppf(x)",
    "scipy.stats.norm.entropy": "0.5 * np.log(2.0 * np.pi * np.e * scale**2)",
    "scipy.stats.norm.mean": "loc",
    "scipy.stats.beta.mean": "a / (a + b)",
    "scipy.stats.invgamma.logpdf": "scipy.stats.gamma.logpdf(1.0 / x, a) - 2.0 * np.log(x)",
    "scipy.stats.geom.logpmf": "(k - 1.0) * np.log1p(-p) + np.log(p)",
    "scipy.stats.skewnorm.logpdf": "np.log(2.0) + scipy.stats.norm.logpdf(x) + scipy.stats.norm.logcdf(a * x)",
    "scipy.stats.truncnorm.logpdf": (
        "scipy.stats.norm.logpdf(x) - np.log(scipy.stats.norm.cdf(b) - scipy.stats.norm.cdf(a))"
    ),
    "scipy.stats.vonmises.logpdf": "kappa * (np.cos(x) - 1.0) - np.log(2.0 * np.pi * scipy.special.i0e(kappa))",
}
"""What to write instead of a function of SciPy that has no rule: an expression of functions that have one."""
SCIPY_SLOPES: dict[str, str] = {
    "expi": "np.exp(x) / x",
    "exp1": "-np.exp(-x) / x",
    "dawsn": "1.0 - 2.0 * x * y",
    "erfi": "2.0 / np.sqrt(np.pi) * np.exp(x * x)",
    "spence": "np.log(x) / (1.0 - x)",
    "ellipk": "(scipy.special.ellipe(x) / (1.0 - x) - y) / (2.0 * x)",
    "ellipe": "(y - scipy.special.ellipk(x)) / (2.0 * x)",
    "k0e": "y - scipy.special.k1e(x)",
    "k1e": "y - scipy.special.k0e(x) - y / x",
    "wrightomega": "y / (1.0 + y)",
    "ber": "scipy.special.berp(x)",
    "bei": "scipy.special.beip(x)",
}
"""The slopes of functions of `scipy.special` of one number x; y is the result."""


# Solvers take derivatives; they are not differentiated themselves. Their steps follow comparisons, so the derivative of
# the steps is not that of the solution: golden-section search gives 0 for every function. `wg.root`, `wg.fixed_point`
# and `wg.minimize` differentiate the equation that the solution solves, and take SciPy's solvers as `solver=`. A
# recorded value mostly comes in through the function that is solved, `lambda x: x**2 - a`:
# `frontends.recording.library_hooks` looks at what the functions among the arguments return.
_STOP = "v.data, which stops the gradient"
_MINIMUM = (
    "write wg.minimize(f, x0, a), whose result has a gradient; f(x, a) is given what it depends on after x. For this "
    "solver, write wg.minimize(f, x0, a, solver=lambda f, x0: scipy.optimize.{name}(f, ...){result}, tolerance=1e-5). "
    f"Or use {_STOP}. See docs/solvers.md"
)
_ROOT = (
    "write wg.root(f, x0, a, solver=lambda f, x0: scipy.optimize.{name}(f, ...){result}), whose result has a gradient; "
    f"f(x, a) is given what it depends on after x. Or use {_STOP}. See docs/solvers.md"
)
_FIXED_POINT = (
    "write wg.fixed_point(f, x0, a), whose result has a gradient; f(x, a) is given what it depends on after x. "
    f"Or use {_STOP}. See docs/solvers.md"
)
_LEAST_SQUARES = (
    "write wg.minimize(lambda p, a: np.sum(residuals(p, a) ** 2), p0, a), whose result has a gradient; residuals is "
    f"given what it depends on after p. Or use {_STOP}. See docs/solvers.md"
)
_SEARCH = f"it finds points for another solver, and they have no derivative; use {_STOP}"
_DIFFERENCES = "write wg.grad(f)(x), which is exact; or use v.data"
_ACTIVE = (
    "where the solution moves with its numbers, its tight constraints stay the same: find them with v.data, and write "
    "np.linalg.solve(A[tight], b[tight])"
)
_FREE = (
    "the unknowns that are at no bound stay free: find them with v.data, and write "
    "np.linalg.lstsq(A[:, free], b - A[:, ~free] @ x[~free])[0]"
)
_ASSIGNMENT = (
    "a choice of pairs has no derivative: find it with v.data, and write np.sum(A * B[p][:, p]), where p is its col_ind"
)
_ISOTONIC = (
    "find its blocks with v.data, and write [np.mean(y[i:j]) for i, j in zip(blocks, blocks[1:])], the mean of each"
)

SOLVER_REMEDIES: dict[str, str] = {
    **dict.fromkeys(
        (
            *("basinhopping", "brute", "differential_evolution", "direct", "dual_annealing", "minimize", "shgo"),
            *("brent", "fminbound", "golden", "minimize_scalar"),
            *("fmin", "fmin_bfgs", "fmin_cg", "fmin_cobyla", "fmin_l_bfgs_b", "fmin_ncg", "fmin_powell"),
            *("fmin_slsqp", "fmin_tnc", "elementwise.find_minimum"),
        ),
        _MINIMUM,
    ),
    **dict.fromkeys(
        (
            *("bisect", "brenth", "brentq", "fsolve", "newton", "ridder", "root", "root_scalar", "toms748"),
            *("anderson", "broyden1", "broyden2", "diagbroyden", "excitingmixing", "linearmixing", "newton_krylov"),
            "elementwise.find_root",
        ),
        _ROOT,
    ),
    "fixed_point": _FIXED_POINT,
    **dict.fromkeys(("curve_fit", "least_squares", "leastsq"), _LEAST_SQUARES),
    **dict.fromkeys(("bracket", "line_search", "elementwise.bracket_minimum", "elementwise.bracket_root"), _SEARCH),
    **dict.fromkeys(("approx_fprime", "check_grad"), _DIFFERENCES),
    **dict.fromkeys(("linprog", "milp"), _ACTIVE),
    **dict.fromkeys(("lsq_linear", "nnls"), _FREE),
    "quadratic_assignment": _ASSIGNMENT,
    "isotonic_regression": _ISOTONIC,
}
"""What to write instead of each function of `scipy.optimize`, where a recorded value takes part."""
REPORTING_SOLVERS = frozenset(
    (
        *("basinhopping", "differential_evolution", "direct", "dual_annealing", "minimize", "minimize_scalar", "root"),
        *("shgo", "elementwise.find_minimum", "elementwise.find_root"),
    )
)
"""The solvers whose result is a report, with the solution as `x`."""
RESULT_PARTS = {
    "root_scalar": ".root",
    "fmin_l_bfgs_b": "[0]",
    "fmin_tnc": "[0]",
}
"""Where the solution is in the result of other solvers, unless it is the result itself."""


def _register_solver_refusal(name: str, remedy: str) -> None:
    result = ".x" if name in REPORTING_SOLVERS else RESULT_PARTS.get(name, "")
    advice = remedy.format(name=name, result=result)

    @register_scipy_method(f"scipy.optimize.{name}", refuses=True)
    def refuse_solver(*args: Any, **kwargs: Any) -> Any:
        """Refuse recorded values, and say what to write instead."""
        raise NoRuleError(
            f"scipy.optimize.{name} is not differentiated, and a recorded value takes part in it: {advice}"
            f"{format_user_line()}"
        )


for _name, _remedy in SOLVER_REMEDIES.items():
    _register_solver_refusal(_name, _remedy)

# Functions that are linear in an array, which SciPy computes in compiled code. What they give for the rows of the
# identity matrix are the weights of the elements, so the product with these weights has the value and the gradient.
AT_RECORDED_POINTS = (
    "at recorded points, write splines of degree 1, one for each axis, as in scipy.interpolate.make_interp_spline(b, "
    "scipy.interpolate.make_interp_spline(a, x, k=1)(p), k=1)(q)"
)
REFUSED_PARTS: dict[str, str] = {
    "scipy.interpolate.BSpline": ".__init__",
    "scipy.interpolate.NearestNDInterpolator": ".__init__",
    "scipy.interpolate.RegularGridInterpolator": ".__init__",
    "scipy.interpolate.griddata": "",
    "scipy.interpolate.interpn": "",
    "scipy.signal.hilbert": "",
}
"""For each function or class, the method that takes the array."""


def _register_array_refusal(called: str, name: str, advice: str) -> None:
    @register_scipy_method(called, refuses=True)
    def refuse_array(*args: Any, **kwargs: Any) -> Any:
        """Refuse recorded values, and say what to write instead."""
        raise NoRuleError(f"{name} has no rule: {advice}{format_user_line()}")


for _name, _part in REFUSED_PARTS.items():
    _register_array_refusal(_name + _part, _name, f"write {SCIPY_SPELLINGS[_name]}, where x is the recorded array")
_register_array_refusal(
    "scipy.interpolate.RegularGridInterpolator.__call__",
    "scipy.interpolate.RegularGridInterpolator",
    AT_RECORDED_POINTS,
)
_register_array_refusal(
    "scipy.interpolate.RBFInterpolator.__call__",
    "scipy.interpolate.RBFInterpolator",
    "at recorded points, write kernel(scipy.spatial.distance.cdist(p, points)) @ np.linalg.solve(kernel("
    "scipy.spatial.distance.cdist(points, points)), x), with a kernel such as np.exp(-((r / width) ** 2))",
)
