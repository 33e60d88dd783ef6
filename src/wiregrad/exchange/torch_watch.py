"""Watch a PyTorch program: record every op it runs, with values, gradients, modules and lines.

A dispatch mode sees each op below autograd, where composites are already decomposed. A tensor is known by its storage,
offset, shape, stride and dtype; a write in place begins a new version of its storage. A leaf that requires a gradient
comes from outside, even where an op of the run made or wrote it: autograd's graph ends there. Values are held without a
copy, and copied just before an op writes over them. Hooks on the nodes of autograd's graph give what each op received
and sent in the backward pass.

Watching changes no number of the program: the recorder only holds on to tensors, and what it computes itself runs
outside of the mode.
"""

from __future__ import annotations

import math
import os
import sys
import weakref
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from types import CodeType, FrameType, TracebackType
from typing import Any, NamedTuple, Self

from numpy.typing import NDArray

from wiregrad.errors import InputError, NonFiniteError, is_library_file, require_package, short_repr
from wiregrad.exchange import torch_replay
from wiregrad.exchange.observed_errors import explain_error
from wiregrad.exchange.observed_explain import ObservedExplanation, explain_run
from wiregrad.exchange.observed_flow import ObservedFlow, flow_run
from wiregrad.exchange.observed_run import (
    BackwardCheck,
    HeldValue,
    ObservedBlame,
    ObservedFunction,
    ObservedGradient,
    ObservedOp,
    ObservedRun,
    ObservedTensor,
    ObservedUpdate,
    SourceCall,
    TensorRef,
    TensorSummary,
    UpdatedGroup,
    blame_run,
    identify_tensor,
    is_zero,
    join_linked_steps,
    reads_graph_of_before,
)
from wiregrad.exchange.observed_training import add_training_faults, remember_step
from wiregrad.ir import Place

with require_package("torch", "watching a PyTorch program"):
    import torch
    from torch.multiprocessing.reductions import StorageWeakRef
    from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
    from torch.nn.parameter import is_lazy
    from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
    from torch.utils._python_dispatch import TorchDispatchMode

MAX_STEPS = 4
"""How many training steps are held at most; the oldest is dropped first."""
MAX_MEMORY_RATIO = 3.0
"""How much memory program and watch take together at most, in units of the program's, unless `keep` says otherwise."""
MIN_HELD_BYTES = 1 << 22
MAX_HELD_BYTES = 1 << 30
"""How many bytes of values are held at least and at most, unless `keep` says otherwise."""
MAX_SHARE = 0.25
"""The largest share of the room that is left that one gradient takes: many small ones are worth more than one."""
PIECE_SIZE = 1 << 16
"""How many numbers are converted at a time."""
NODE_KEY = "wiregrad"
"""The key under which a node of autograd's graph holds its op."""
TORCH_FOLDER = os.path.dirname(torch.__file__) + os.sep
APPLY_CODE = torch.autograd.Function.apply.__func__.__code__
BACKWARD_FILE = torch.autograd.__file__
SCALER_FILE = torch.amp.grad_scaler.__file__
MAX_SKIPPED_STEPS = 50
"""How many steps in a row a gradient scaler may skip before its gradients count as broken."""
WRAPPER_FILES = {os.path.join(TORCH_FOLDER, *file) for file in (("_compile.py",), ("_dynamo", "eval_frame.py"))}
"""Files of the functions that PyTorch puts around each call of a mode."""
MODED_MODULES = (torch.nn.modules.dropout._DropoutNd, torch.nn.modules.batchnorm._NormBase)
"""The classes of modules that work otherwise in an evaluation."""
DETACH = torch.ops.aten.detach.default
HIDDEN_WRITES = {"aten.native_batch_norm": (3, 4), "aten.cudnn_batch_norm": (3, 4), "aten.miopen_batch_norm": (3, 4)}
"""The arguments that an op writes although its schema does not say so: running statistics."""

UNRECORDED_NAMESPACES = {"profiler"}

TensorKey = tuple[Any, ...]


class OpSchema(NamedTuple):
    """What the schema of an op says: its name, and which arguments it writes."""

    namespace: str
    name: str
    overload: str
    written: tuple[int, ...]
    """Positions of the written arguments."""
    written_keywords: tuple[str, ...]
    counts_lists: bool
    """Whether PyTorch counts its writes to all tensors of a list; it does not count those of fused optimizers."""


def describe_op(func: Any) -> OpSchema:
    """Read the schema of an op."""
    name = str(func.overloadpacket)
    arguments = func._schema.arguments
    written = [k for k, argument in enumerate(arguments) if argument.alias_info and argument.alias_info.is_write]
    positions = tuple(k for k in written if not arguments[k].kwarg_only)
    keywords = tuple(arguments[k].name for k in written)
    positions += HIDDEN_WRITES.get(name, ())
    counts_lists = bool(written) and func._schema.name.startswith("aten::_foreach_")
    return OpSchema(func.namespace, name, func._overloadname, positions, keywords, counts_lists)


def summarize_tensor(tensor: Any) -> TensorSummary:
    """Measure a tensor."""
    plain = tensor.detach()
    if not plain.numel() or plain.is_meta:
        return TensorSummary(0)
    if plain.is_complex():
        plain = plain.abs()
    zeros = plain.numel() - int(torch.count_nonzero(plain))
    if not plain.is_floating_point():
        return summarize_integers(plain, zeros)
    finite = plain
    nans = infs = 0
    low, high = map(float, torch.aminmax(plain))
    # Both ends are NaN if any number is.
    if not (math.isfinite(low) and math.isfinite(high)):
        finite = plain[torch.isfinite(plain)]
        nans = int(torch.isnan(plain).sum())
        infs = plain.numel() - nans - finite.numel()
        if not finite.numel():
            return TensorSummary(plain.numel(), zeros, nans, infs)
        low, high = map(float, torch.aminmax(finite))
    mean, rms = measure_center(finite)
    return TensorSummary(plain.numel(), zeros, nans, infs, low, high, mean, rms)


def summarize_integers(tensor: Any, zeros: int) -> TensorSummary:
    """Measure whole numbers or conditions, a piece at a time, because float64 takes eight times the room of a byte."""
    low, high = torch.aminmax(tensor)
    total = squares = 0.0
    for piece in tensor.reshape(-1).split(PIECE_SIZE):
        numbers = piece.to(torch.float64)
        total += float(numbers.sum())
        squares += float(numbers.square().sum())
    size = tensor.numel()
    return TensorSummary(size, zeros, 0, 0, float(low), float(high), total / size, math.sqrt(squares / size))


def measure_center(tensor: Any) -> tuple[float, float]:
    """Return the mean and the root mean square of finite numbers."""
    dtype = torch.promote_types(tensor.dtype, torch.float32)
    mean = float(tensor.mean(dtype=dtype))
    rms = float(torch.linalg.vector_norm(tensor, dtype=dtype)) / tensor.numel() ** 0.5
    if math.isfinite(mean) and math.isfinite(rms):
        return mean, rms
    # Sums of squares overflow long before the numbers do.
    largest = float(tensor.abs().max())
    scaled = tensor.to(torch.float64) / largest
    rms = float(torch.linalg.vector_norm(scaled)) / tensor.numel() ** 0.5
    return largest * float(scaled.mean()), largest * rms


def read_tensor(tensor: Any) -> NDArray[Any]:
    """Return a tensor as an array; numbers that NumPy does not know become float32."""
    plain = tensor.detach().cpu()
    if plain.layout is not torch.strided:
        plain = plain.to_dense()
    if plain.dtype is torch.bfloat16:
        plain = plain.float()
    array: NDArray[Any] = plain.resolve_conj().resolve_neg().numpy()
    return array


def count_users(storage: Any) -> int:
    """Return how many tensors use a storage."""
    return int(torch._C._storage_Use_Count(storage._cdata)) - 1


def move_to_storage(tensor: Any, storage: Any) -> Any:
    """Return a tensor like another one, in a storage of the same layout."""
    place = tensor.storage_offset(), tensor.shape, tensor.stride()
    return torch.empty(0, dtype=tensor.dtype, device=tensor.device).set_(storage, *place)


class StorageEntry:
    """What is known of one storage: its number, how often it was written, by which op, and who holds values in it."""

    __slots__ = ("holders", "is_named", "number", "reference", "summary", "version", "writer")

    def __init__(self, number: int, storage: Any) -> None:
        self.number = number
        self.reference = StorageWeakRef(storage)
        """Keeps the address of the storage from being used again."""
        self.version = 0
        self.writer: tuple[ObservedRun, int] | None = None
        self.holders: list[HeldValue] = []
        self.summary: tuple[object, TensorSummary] | None = None
        """The last tensor in it that was measured: what one op sends is what the next one receives."""
        self.is_named = False
        """Whether it belongs to a parameter, a buffer or a named input, which the program keeps anyway."""

    def summarize(self, tensor: Any) -> TensorSummary:
        """Measure a tensor in this storage, unless it was just measured."""
        count = None if tensor.is_inference() else tensor._version
        key = count, tensor.storage_offset(), tensor.shape, tensor.stride(), tensor.dtype
        if count is None or self.summary is None or self.summary[0] != key:
            self.summary = key, summarize_tensor(tensor)
        return self.summary[1]


class ValueStore:
    """Holds values within a number of bytes, and copies them just before they are overwritten.

    Without a limit of the user's, each backward pass sets one by the bytes that the program has by then.
    """

    def __init__(self, limit: float | None) -> None:
        self._is_adaptive = limit is None
        self.limit = MAX_HELD_BYTES if limit is None else limit
        self._reserved = 0
        """Bytes that are left free for copies of parameters, which an optimizer will overwrite."""
        self._share = 1.0
        self.bytes = 0
        self._entries: dict[int, StorageEntry] = {}
        """What is known of each storage, by its address."""
        self._count = 0
        self.is_closed = False

    def find_entry(self, tensor: Any) -> StorageEntry | None:
        """Return what is known of a tensor's storage; None for tensors without one, such as sparse tensors."""
        try:
            storage = tensor.untyped_storage()
        except NotImplementedError:
            return None
        address = storage._cdata
        entry = self._entries.get(address)
        if entry is None:
            entry = self._entries[address] = StorageEntry(self._count, storage)
            self._count += 1
        return entry

    def hold(self, tensor: Any, *, free: bool = False) -> HeldValue:
        """Hold a tensor, or its summary if there is no room for it; with `free`, it takes no room."""
        held = HeldValue(tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."))
        entry = self.find_entry(tensor)
        if entry is None:
            held.value = tensor.detach()
            return held
        entry.is_named = entry.is_named or free
        size = 0 if free or entry.holders else tensor.untyped_storage().nbytes()
        if size > self._share * (self.limit - self._reserved - self.bytes):
            held.summary = entry.summarize(tensor)
            return held
        self._charge(held, size)
        held.value = tensor.detach()
        if self.is_closed:
            self.copy_value(held)
        else:
            entry.holders.append(held)
        return held

    def begin_step(self) -> None:
        """Allow the most, because how much memory a step takes is known when its backward pass begins."""
        if self._is_adaptive:
            self.limit, self._reserved, self._share = MAX_HELD_BYTES, 0, 1.0

    def bound_by_program(self) -> None:
        """Limit what is held so that the program takes at most `MAX_MEMORY_RATIO` times its memory."""
        if not self._is_adaptive:
            return
        program = named = 0
        for entry in self._entries.values():
            own = [held for held in entry.holders if held.value is not None]
            if not own:
                continue
            storage = own[0].value.untyped_storage()
            if count_users(storage) > len(own):
                program += storage.nbytes()
                named += storage.nbytes() if entry.is_named else 0
        # The program keeps the parameters, and will have as many gradients.
        room = MAX_MEMORY_RATIO * program - 2 * named
        self.limit = min(max(room, MIN_HELD_BYTES), MAX_HELD_BYTES)
        self._reserved = min(named, int(self.limit / 2))
        self._share = MAX_SHARE

    def _charge(self, held: HeldValue, size: int) -> None:
        held.charged += size
        self.bytes += size

    def begin_write(self, tensors: Iterable[Any]) -> None:
        """Copy the held values of storages that are about to be written."""
        for entry in filter(None, map(self.find_entry, tensors)):
            self._copy_holders(entry)

    def _copy_holders(self, entry: StorageEntry) -> None:
        """Copy the held values of a storage: the storage once, or each value if that is less."""
        holders = [held for held in entry.holders if held.value is not None]
        entry.holders.clear()
        if len(holders) > 1:
            storage = holders[0].value.untyped_storage()
            size = storage.nbytes()
            if self.bytes + size <= self.limit and size <= sum(held.value.nbytes for held in holders):
                self._charge(holders[0], size)
                copied = storage.clone()
                for held in holders:
                    held.value = move_to_storage(held.value, copied)
                return
        for held in holders:
            self.copy_value(held)

    def copy_value(self, held: HeldValue) -> None:
        """Replace a held value by a copy of its own, or by its summary if there is no room."""
        if held.value is None:
            return
        size = held.value.nbytes
        if self.bytes + size > self.limit:
            held.summary = summarize_tensor(held.value)
            held.value = None
            return
        self._charge(held, size)
        held.value = held.value.clone()

    def close(self) -> None:
        """Copy what the program can still change, because nothing is seen from now on."""
        self.is_closed = True
        for entry in self._entries.values():
            own = [held for held in entry.holders if held.value is not None]
            if own and count_users(own[0].value.untyped_storage()) > len(own):
                self._copy_holders(entry)

    def end_write(self, tensors: Iterable[Any], writer: tuple[ObservedRun, int] | None) -> None:
        """Count a new version of storages that were written."""
        for entry in set(filter(None, map(self.find_entry, tensors))):
            entry.version += 1
            entry.writer = writer

    def release(self, run: ObservedRun) -> None:
        """Let go of the values of a step, and of storages that are gone."""
        for held in run.list_held():
            self.bytes -= held.charged
            held.value = None
        for address, entry in list(self._entries.items()):
            entry.holders = [held for held in entry.holders if held.value is not None]
            if not entry.holders and entry.reference.expired():
                del self._entries[address]


class TensorBook:
    """The tensors of one step: which observed tensor a tensor of the framework is."""

    def __init__(
        self, run: ObservedRun, store: ValueStore, names: dict[TensorKey, tuple[str, str]], *, ends_at_leaves: bool
    ) -> None:
        self.run = run
        self.store = store
        self._names = names
        self._ends_at_leaves = ends_at_leaves
        self._known: dict[TensorKey, ObservedTensor] = {}
        self._graphs: dict[tuple[Any, ...], int] = {}
        """The tensors from outside that have a graph, by what identifies them in all steps."""
        self._twins: dict[int, tuple[weakref.ref[Any], ObservedTensor]] = {}
        """Results that nothing tells apart from another tensor, such as what `detach` returns, by object."""

    def key_of(self, tensor: Any) -> TensorKey:
        """Return what identifies a tensor, apart from its version."""
        entry = self.store.find_entry(tensor)
        if entry is None:
            return (id(tensor),)
        # A conjugate is a view that differs in nothing but a flag.
        flags = tensor.is_conj(), tensor.is_neg()
        return entry.number, tensor.storage_offset(), tuple(tensor.shape), tensor.stride(), tensor.dtype, flags

    def look_up(self, tensor: Any, frame: FrameType | None = None) -> ObservedTensor:
        """Return the observed tensor that an op reads; one that was not seen before comes from outside."""
        key = self.key_of(tensor)
        version = self._version_of(tensor)
        twin = self._twins.get(id(tensor))
        if twin is not None and twin[0]() is tensor and twin[1].version == version:
            return twin[1]
        requires_grad = tensor.requires_grad
        known = self._known.get((key, version, requires_grad))
        is_end = self._ends_at_leaves and ends_graph(tensor)
        if known is not None and not (is_end and known.producer is not None):
            return known
        found = known or self._known.get((key, version, not requires_grad))
        if found is None or found.producer is not None:
            maker = None if found is None else found.producer
            found = self._add(tensor, key, version, None)
            self._name_outside(found, tensor, key, frame, is_end=is_end)
            if is_end and found.value_op is None:
                found.value_op = maker
        self._known[key, version, requires_grad] = found
        return found

    def name_tensor(self, tensor: Any, kind: str, name: str) -> str:
        """Name a parameter or buffer, which ops may have read before; returns the name that it had, if it had one."""
        key = self.key_of(tensor)
        kind, name = self._names.setdefault(key, (kind, name))
        for requires_grad in (False, True):
            observed = self._known.get((key, self._version_of(tensor), requires_grad))
            if observed is not None and observed.kind == "input":
                observed.kind = kind
                observed.name = name
        return name

    def find_name(self, tensor: Any) -> str:
        """Return the name of a parameter or buffer; empty for other tensors."""
        return self._names.get(self.key_of(tensor), ("", ""))[1]

    def add_result(self, tensor: Any, producer: int) -> ObservedTensor:
        """Add the result of an op; whether it requires a gradient is known later."""
        return self._add(tensor, self.key_of(tensor), self._version_of(tensor), producer)

    def _version_of(self, tensor: Any) -> int:
        entry = self.store.find_entry(tensor)
        return 0 if entry is None else entry.version

    def settle_result(self, tensor: Any, observed: ObservedTensor) -> None:
        """Note whether a result requires a gradient, and find it under its key from now on."""
        observed.requires_grad = tensor.requires_grad
        key = self.key_of(tensor), observed.version, observed.requires_grad
        known = self._known.setdefault(key, observed)
        if known is not observed:
            self._twins[id(tensor)] = weakref.ref(tensor), observed

    def _add(self, tensor: Any, key: TensorKey, version: int, producer: int | None) -> ObservedTensor:
        strided = len(key) > 1
        observed = ObservedTensor(
            index=len(self.run.tensors),
            storage=key[0],
            version=version,
            offset=key[1] if strided else 0,
            shape=tuple(tensor.shape),
            stride=key[3] if strided else (),
            dtype=str(tensor.dtype).removeprefix("torch."),
            requires_grad=tensor.requires_grad,
            is_leaf=tensor.is_leaf,
            producer=producer,
        )
        observed.held = self.store.hold(tensor, free=key in self._names)
        self.run.tensors.append(observed)
        return observed

    def _name_outside(
        self, observed: ObservedTensor, tensor: Any, key: TensorKey, frame: FrameType | None, *, is_end: bool
    ) -> None:
        """Name a tensor that no recorded op made: a parameter, a view of something written, or an input."""
        entry = self.store.find_entry(tensor)
        writer = None if entry is None else entry.writer
        written_by = writer[1] if writer is not None and writer[0] is self.run else None
        if is_end:
            observed.value_op = written_by
        if key in self._names:
            observed.kind, observed.name = self._names[key]
            return
        if written_by is not None and not is_end:
            observed.writer = written_by
            return
        observed.kind = "input"
        observed.name = find_variable(tensor, frame)
        if reads_graph_of_before(observed):
            self._graphs[identify_tensor(observed)] = observed.index

    def find_outside(self, tensor: ObservedTensor) -> int | None:
        """Return the number that a tensor of an earlier step has in this step; None if no op has read it."""
        return self._graphs.get(identify_tensor(tensor))


def ends_graph(tensor: Any) -> bool:
    """Return whether gradients end at a tensor: a leaf that requires one, such as a parameter."""
    # A view that is made under no_grad is called a leaf, and requires a gradient if its base does.
    return bool(tensor.requires_grad and tensor.is_leaf and not (tensor._is_view() and tensor._base.requires_grad))


def find_variable(tensor: Any, frame: FrameType | None) -> str:
    """Return the name of the variable that holds a tensor, in a frame or the frames that called it."""
    while frame is not None:
        if not is_foreign_code(frame.f_code):
            variables = {**frame.f_globals, **frame.f_locals} if frame.f_code.co_name == "<module>" else frame.f_locals
            name = next((name for name, value in variables.items() if value is tensor), None)
            name = name or next(filter(None, (find_part(*item, tensor) for item in variables.items())), None)
            if name is not None:
                return name
        frame = frame.f_back
    return ""


MAX_SEARCHED_PARTS = 64
"""Containers with more parts are not searched for the name of a tensor."""


def find_part(name: str, container: Any, tensor: Any) -> str | None:
    """Return what a tensor is called as a part of a dict, list or tuple, such as `batch['x']`; None if it is none."""
    if not isinstance(container, dict | list | tuple) or len(container) > MAX_SEARCHED_PARTS:
        return None
    parts = container.items() if isinstance(container, dict) else enumerate(container)
    return next((f"{name}[{key!r}]" for key, part in parts if part is tensor), None)


_FOREIGN: dict[CodeType, bool] = {}


def is_foreign_code(code: CodeType) -> bool:
    """Return whether code belongs to PyTorch, wiregrad, NumPy or the standard library, not to the user."""
    foreign = _FOREIGN.get(code)
    if foreign is None:
        file = code.co_filename
        foreign = _FOREIGN[code] = file.startswith(TORCH_FOLDER) or is_library_file(file)
    return foreign


class SourceCalls:
    """Finds the user's call that ran an op."""

    def __init__(self) -> None:
        self._sites: dict[tuple[CodeType, int], SourceCall] = {}

    def find(self, frame: FrameType | None) -> tuple[SourceCall | None, FrameType | None]:
        """Return the call, and its frame."""
        while frame is not None and is_foreign_code(frame.f_code):
            frame = frame.f_back
        if frame is None:
            return None, None
        key = frame.f_code, frame.f_lasti
        site = self._sites.get(key)
        if site is None:
            site = SourceCall(Place(frame.f_code.co_filename, frame.f_lineno), frame.f_code, frame.f_lasti)
            self._sites[key] = site
        return site, frame


class ModuleNames:
    """The names of modules and their parameters, and which module runs."""

    def __init__(self, model: Any) -> None:
        self.names: dict[Any, str] = {}
        self.running: list[tuple[str, int]] = []
        self.parents: dict[str, str] = {}
        """The module that called each module."""
        self._calls = 0
        self.added: list[tuple[str, Any]] = []
        """Modules whose parameters are not named yet."""
        self.moded: dict[Any, bool] = {}
        """The modules of this step that work otherwise in an evaluation, and whether they ran as in training."""
        if model is not None:
            self.add_tree("", model)

    def add_tree(self, prefix: str, root: Any) -> None:
        """Name a module and those inside it."""
        for name, module in root.named_modules(prefix=prefix):
            self.names.setdefault(module, name)
        self.added.append((prefix, root))

    def enter(self, module: Any, _args: Any) -> None:
        """Note that a module begins to run."""
        if module not in self.names:
            self.add_tree(type(module).__name__, module)
        name = self.names[module]
        if has_lazy_parameters(module):
            self.added.append((name, module))
        self.parents.setdefault(name, self.running[-1][0] if self.running else "")
        self._calls += 1
        self.running.append((name, self._calls))

    def leave(self, module: Any, _args: Any, result: Any) -> None:
        """Note that a module has run, and whether it ran as in training."""
        if isinstance(module, MODED_MODULES) and isinstance(result, torch.Tensor) and result.requires_grad:
            self.moded[module] = module.training
        if self.running:
            self.running.pop()

    @property
    def current(self) -> tuple[str, int]:
        """The name of the module that runs, and the number of its call; an empty name outside of modules."""
        return self.running[-1] if self.running else ("", 0)


def has_lazy_parameters(module: Any) -> bool:
    """Return whether a lazy module has not run yet: its own parameters get their shapes from its first input."""
    return any(is_lazy(tensor) for tensor in (*module._parameters.values(), *module._buffers.values()))


class UsedGradients:
    """Finds gradients that an optimizer used and nobody reset, so that the next step uses their sum with the next ones.

    Only references that keep nothing alive are held.
    """

    def __init__(self) -> None:
        self._used: dict[int, tuple[weakref.ref[Any], int]] = {}
        """The gradient that each parameter had after a step, and how often it was written by then."""
        self._added: dict[int, weakref.ref[Any]] = {}
        """The gradients to which a backward pass added others, although an optimizer had used them."""

    def note_update(self, parameters: Iterable[Any]) -> None:
        """Note the gradients that a step of an optimizer has used."""
        for parameter in parameters:
            self._added.pop(id(parameter), None)
            self._used.pop(id(parameter), None)
            if parameter.grad is not None:
                self._used[id(parameter)] = weakref.ref(parameter.grad), parameter.grad._version

    def begin_backward(self, parameters: Iterable[Any]) -> None:
        """Note the gradients to which a backward pass will add."""
        for parameter in parameters:
            if self._is_stale(parameter):
                self._added[id(parameter)] = weakref.ref(parameter.grad)
            else:
                self._added.pop(id(parameter), None)

    def _is_stale(self, parameter: Any) -> bool:
        """Return whether a gradient has numbers that an optimizer has used."""
        gradient = parameter.grad
        if gradient is None:
            return False
        known = self._used.get(id(parameter))
        is_unchanged = known is not None and known[1] == gradient._version and known[0]() is gradient
        if not (is_unchanged or self.is_added(parameter)):
            return False
        with torch._C._DisableTorchDispatch():
            return bool(gradient.is_sparse or gradient.any())

    def is_added(self, parameter: Any) -> bool:
        """Return whether the gradient of a parameter is a sum with one that was used before."""
        added = self._added.get(id(parameter))
        return added is not None and parameter.grad is not None and added() is parameter.grad


class PassCounter:
    """Counts the backward passes of all steps."""

    count = 0


class StepRecorder:
    """Records the ops of one training step."""

    def __init__(
        self,
        step: int,
        store: ValueStore,
        modules: ModuleNames,
        sites: SourceCalls,
        names: dict[TensorKey, tuple[str, str]],
        passes: PassCounter,
        *,
        ends_at_leaves: bool,
    ) -> None:
        self.run = ObservedRun(step=step, read=read_tensor, parents=modules.parents)
        self.store = store
        self.modules = modules
        self.sites = sites
        self.book = TensorBook(self.run, store, names, ends_at_leaves=ends_at_leaves)
        self.passes = passes
        self._unsettled: list[tuple[Any, ObservedTensor]] = []
        self._last_call: tuple[FrameType, int] | None = None
        self._function_frame: FrameType | None = None

    def run_op(
        self, func: Any, form: OpSchema, args: Sequence[Any], kwargs: dict[str, Any], frame: FrameType, phase: str
    ) -> Any:
        """Run an op and record it."""
        if func is DETACH and self._saves_result(args[0], frame):
            return func(*args, **kwargs)
        self.settle()
        if frame.f_code.co_filename == SCALER_FILE:
            self.run.is_scaled = True
        site, user_frame = self.sites.find(frame)
        module, module_call = self.modules.current
        op = ObservedOp(
            index=len(self.run.ops),
            name=form.name,
            overload=form.overload,
            arguments=self._encode(tuple(args), user_frame),
            keywords=self._encode(kwargs, user_frame),
            result=None,
            site=site,
            module=module,
            function=None,
            phase=phase,
            step=self.run.step,
            grad_enabled=torch.is_grad_enabled(),
            module_call=module_call,
        )
        if not op.grad_enabled:
            op.function = self._find_function(frame)
        written = find_written(form, args, kwargs)
        before = [self.book.look_up(tensor).index for tensor in written]
        self.store.begin_write(written)
        result = func(*args, **kwargs)
        self.run.ops.append(op)
        self.store.end_write(written, (self.run, op.index))
        op.result = self._add_results(result, op.index)
        if written:
            op.written = tuple(zip(before, self._find_after(written, op.index), strict=True))
        if op.function is not None:
            self.run.functions[op.function].ops.append(op.index)
        self._last_call = frame, frame.f_lasti
        return result

    def _saves_result(self, tensor: Any, frame: FrameType) -> bool:
        """Return whether autograd detaches the result that an op has just made, to save it."""
        is_last = any(tensor is result for result, _ in self._unsettled)
        return is_last and self._last_call == (frame, frame.f_lasti) and self.run.ops[-1].name != "aten.detach"

    def _encode(self, value: Any, frame: FrameType | None) -> Any:
        """Replace the tensors of arguments by references."""
        if isinstance(value, torch.Tensor):
            observed = self.book.look_up(value, frame)
            self._attach_tensor(value, observed)
            return TensorRef(observed.index)
        if type(value) in (list, tuple):
            return type(value)([self._encode(part, frame) for part in value])
        if type(value) is dict:
            return {name: self._encode(part, frame) for name, part in value.items()}
        return value

    def _add_results(self, result: Any, op: int) -> Any:
        if isinstance(result, torch.Tensor):
            observed = self.book.add_result(result, op)
            self._unsettled.append((result, observed))
            return TensorRef(observed.index)
        if isinstance(result, list | tuple):
            return tuple(self._add_results(part, op) for part in result)
        return result

    def _find_after(self, written: Sequence[Any], op: int) -> list[int]:
        """Return the numbers of written tensors after the write; those that were not returned are added."""
        after = []
        for tensor in written:
            index = next((observed.index for result, observed in self._unsettled if result is tensor), None)
            if index is None:
                observed = self.book.add_result(tensor, op)
                self._unsettled.append((tensor, observed))
                index = observed.index
            after.append(index)
        return after

    def settle(self) -> None:
        """Note what autograd has added to the results of the last op by now: whether they require a gradient."""
        for tensor, observed in self._unsettled:
            self.book.settle_result(tensor, observed)
            self._attach_tensor(tensor, observed)
        self._unsettled.clear()

    def _attach_tensor(self, tensor: Any, observed: ObservedTensor) -> None:
        """Attach the node that made a tensor to the op that made it, or that wrote to its storage."""
        try:
            node = tensor.grad_fn
        except RuntimeError:
            # PyTorch has no node for a view that was made under no_grad and then written to.
            return
        if node is None:
            return
        if observed.producer is not None:
            self.attach_node(node, observed.producer)
            function = self.run.ops[observed.producer].function
            if function is not None:
                self.run.functions[function].outputs[tensor.output_nr] = observed.index
        elif observed.writer is not None:
            self.attach_node(node, observed.writer, observed.index)

    def _find_function(self, frame: FrameType | None) -> int | None:
        """Return the custom function inside whose forward pass an op runs; None outside of one."""
        while frame is not None and frame.f_code is not APPLY_CODE:
            frame = frame.f_back
        if frame is None:
            self._function_frame = None
            return None
        if frame is not self._function_frame:
            self._function_frame = frame
            rule = frame.f_locals["cls"]
            site, user_frame = self.sites.find(frame.f_back)
            arguments = self._encode(frame.f_locals["args"], user_frame)
            index = len(self.run.functions)
            name = rule.__name__
            self.run.functions.append(ObservedFunction(index, name, site, self.modules.current[0], [], rule, arguments))
        return len(self.run.functions) - 1

    def attach_node(self, node: Any, op: int, tensor: int | None = None) -> None:
        """Register a hook on the node of an op, once, which records what it receives and sends.

        `tensor` is what the node makes if that is not a result of the op.
        """
        mark = node.metadata.get(NODE_KEY)
        if mark is not None and mark[0] is self:
            return
        node.metadata[NODE_KEY] = self, op, tensor
        function = self.run.ops[op].function if hasattr(node, "_forward_cls") else None
        self.run.rules.setdefault(op, node.name())
        if tensor is not None:
            for following, _ in node.next_functions:
                # A write to a view is a node of its own behind the view.
                if following is not None and NODE_KEY not in following.metadata and not hasattr(following, "variable"):
                    self.attach_node(following, op)
        targets = tuple(self._find_target(*edge) for edge in node.next_functions)
        node.register_hook(partial(self._note_gradient, op, function, node.name(), targets))

    def _find_target(self, node: Any, output: int) -> int | None:
        """Return the tensor to which an edge of autograd's graph leads."""
        if node is None:
            return None
        variable = getattr(node, "variable", None)
        if variable is not None:
            return self.book.look_up(variable).index
        mark = node.metadata.get(NODE_KEY)
        if mark is None:
            return None
        recorder, op, tensor = mark
        if tensor is None:
            outputs = recorder.run.ops[op].outputs
            tensor = outputs[output] if output < len(outputs) else None
        if tensor is None or recorder is self:
            return None if tensor is None else int(tensor)
        return self.book.find_outside(recorder.run.tensors[tensor])

    def _note_gradient(
        self, op: int, function: int | None, rule: str, targets: tuple[int | None, ...], sent: Any, received: Any
    ) -> None:
        """Record what a node received and sent; called by autograd."""
        # Autograd calls it inside of the dispatch mode, which would see each op of a summary.
        with torch._C._DisableTorchDispatch():
            parts = self._hold_all(received), self._hold_all(sent)
        self.run.gradients.append(ObservedGradient(op, function, self.passes.count, rule, *parts, targets))

    def _hold_all(self, tensors: Any) -> tuple[HeldValue | None, ...]:
        parts = tensors if isinstance(tensors, tuple) else (tensors,)
        return tuple(None if tensor is None else self.store.hold(tensor) for tensor in parts)

    def begin_backward(self, roots: Iterable[Any]) -> None:
        """Note where a backward pass begins."""
        self.settle()
        self._function_frame = None
        self._last_call = None
        self.run.last_roots = []
        for root in roots:
            # A tensor of torch.func has no storage, and a meaning only inside of its transform.
            if isinstance(root, torch.Tensor) and self.store.find_entry(root) is not None:
                observed = self.book.look_up(root)
                self.run.roots.append(observed.index)
                self.run.last_roots.append(observed.index)
                self._attach_tensor(root, observed)
        self.run.backwards += 1
        self.passes.count += 1
        if self.run.backwards == 1:
            self.run.first_pass = self.passes.count
        self.store.bound_by_program()

    def end_recording(self) -> None:
        """Let go of tensors and frames of the program."""
        self.settle()
        self._function_frame = None
        self._last_call = None


def find_written(form: OpSchema, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
    """Return the tensors that an op writes in place."""
    if not form.written and not form.written_keywords:
        return []
    parts = [args[k] for k in form.written if k < len(args)]
    parts += [kwargs[name] for name in form.written_keywords if name in kwargs]
    return torch_replay.list_tensors(parts)


class WatchMode(TorchDispatchMode):  # type: ignore[misc]
    """Passes each op to a watch."""

    def __init__(self, watch: TorchWatch) -> None:
        super().__init__()
        self.watch = watch

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Return False: nothing is compiled while a watch is on, so PyTorch needs no wrapper around each call."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        frame = sys._getframe(1)
        while frame.f_code.co_filename in WRAPPER_FILES and frame.f_back is not None:
            frame = frame.f_back
        return self.watch.run_op(func, args, kwargs or {}, frame)


class TorchWatch:
    """Records what PyTorch does inside a `with` block; ask it afterwards, or inside.

    A step ends with a backward pass. The last steps are kept, and recording stops after the first step with a loss or
    gradient that is not finite.
    """

    def __init__(self, model: Any = None, *, keep: int | str, stop: bool = False) -> None:
        if not (model is None or isinstance(model, torch.nn.Module)):
            raise InputError(f"watch takes a torch.nn.Module, or nothing; got {short_repr(model)}")
        self._modules = ModuleNames(model)
        self._store = ValueStore(read_limit(keep))
        self._stops = stop
        self._sites = SourceCalls()
        self._forms: dict[Any, OpSchema] = {}
        self._names: dict[TensorKey, tuple[str, str]] = {}
        self._parameters: dict[str, bool] = {}
        self._model = model
        self._updated: set[str] = set()
        self._watched: list[str] = []
        """The names of the parameters of the model."""
        self._recorder: StepRecorder | None = None
        self.steps: deque[ObservedRun] = deque()
        self.steps_seen = 0
        self._ops_released = 0
        """How many ops were recorded in steps that are no longer held."""
        self.splits_steps = True
        """Whether the first op after a backward pass begins another step."""
        self.ends_at_leaves = True
        """Whether a leaf that requires a gradient comes from outside although an op of the run wrote its value."""
        self._is_step_done = False
        self._backward_depth = 0
        self._update_depth = 0
        self._update: ObservedUpdate | None = None
        """The step of an optimizer that runs."""
        self._has_kept_step = False
        """Whether a step is held only until another one has a backward pass."""
        self._passes = PassCounter()
        self._used_gradients = UsedGradients()
        self._optimized: dict[int, Any] = {}
        """The parameters that optimizers change."""
        self._skipped = 0
        """How many steps in a row had gradients that are not finite."""
        self._cleanups: list[Callable[[], object]] = []

    def __enter__(self) -> Self:
        self._store.is_closed = False
        self._begin_step()
        self._name_parameters()
        self._cleanups = [
            register_module_forward_pre_hook(self._modules.enter).remove,
            register_module_forward_hook(self._modules.leave, always_call=True).remove,
            register_optimizer_step_pre_hook(self._begin_update).remove,
            register_optimizer_step_post_hook(self._end_update).remove,
            self._wrap_backward(),
        ]
        # Compiled code would hide its ops, so compiled functions run as they are written.
        for block in (torch.compiler.set_stance("force_eager"), WatchMode(self)):
            block.__enter__()
            self._cleanups.append(partial(block.__exit__, None, None, None))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        while self._cleanups:
            self._cleanups.pop()()
        if self._recorder is not None:
            self._recorder.end_recording()
        if self.steps:
            self.steps[-1].error = error
        self._store.close()

    def name_modules(self, modules: Mapping[str, Any]) -> None:
        """Give modules names of their own, before they run."""
        for name, module in modules.items():
            self._modules.add_tree(name, module)

    def name_inputs(self, tensors: Mapping[str, Any]) -> None:
        """Give tensors that come from outside names of their own."""
        assert self._recorder is not None
        for name, tensor in tensors.items():
            self._names[self._recorder.book.key_of(tensor)] = "input", name

    def find_tensor(self, tensor: Any) -> ObservedTensor:
        """Return what is observed of a tensor as it is now."""
        assert self._recorder is not None
        self._recorder.settle()
        return self._recorder.book.look_up(tensor)

    def _wrap_backward(self) -> Callable[[], object]:
        """Announce each backward pass; returns what undoes it."""
        original = torch.autograd._engine_run_backward

        def run_backward(roots: Any, *args: Any, **kwargs: Any) -> Any:
            self._begin_backward(roots, keeps_graph=bool(args[1]) if len(args) > 1 else False)
            try:
                return original(roots, *args, **kwargs)
            finally:
                self._backward_depth -= 1

        torch.autograd._engine_run_backward = run_backward
        return partial(setattr, torch.autograd, "_engine_run_backward", original)

    def _begin_backward(self, roots: Any, *, keeps_graph: bool) -> None:
        if self._recorder is not None and not self._backward_depth:
            self._used_gradients.begin_backward(self._optimized.values())
            while self._has_kept_step and len(self.steps) > 1:
                self._release_oldest()
            self._has_kept_step = False
            self._recorder.begin_backward(roots if isinstance(roots, list | tuple) else [roots])
            self._recorder.run.eval_modules = self._list_eval_modules()
            # A graph that is kept is used again, by a second backward pass or a derivative of the gradient.
            self._is_step_done = not keeps_graph
        self._backward_depth += 1

    def _list_eval_modules(self) -> dict[str, str]:
        """Return the names and classes of the modules that ran as in an evaluation, if all did."""
        moded = self._modules.moded
        if any(moded.values()) or (self._model is not None and self._model.training):
            return {}
        return {self._modules.names[module]: type(module).__name__ for module in moded}

    @property
    def run(self) -> ObservedRun:
        """The step that questions are about: the last one in which a backward pass ran, else the last one."""
        if self._recorder is not None:
            self._recorder.settle()
        if not self.steps:
            raise InputError("nothing was watched yet: ask inside or after `with wg.watch(model) as seen:`")
        last = max((k for k, run in enumerate(self.steps) if run.backwards), default=len(self.steps) - 1)
        # A copy, because more may be recorded after a question inside of the block.
        return join_linked_steps(list(self.steps)[: last + 1])

    @property
    def ops_seen(self) -> int:
        """How many ops were recorded, in all steps."""
        return self._ops_released + sum(len(run.ops) for run in self.steps)

    @contextmanager
    def _pause(self) -> Iterator[ObservedRun]:
        """Return the run to ask about; what is computed in this block is not recorded."""
        run = self.run
        recorder = self._recorder
        self._recorder = None
        devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
        try:
            # A function that is run once more may draw random numbers.
            with torch.random.fork_rng(devices):
                yield run
        finally:
            self._recorder = recorder

    def blame(self) -> ObservedBlame:
        """Name the op that first made a loss or gradient that is not finite, with its module, line and reason.

        An error of autograd about a value that was changed in place is explained too.
        """
        with self._pause() as run:
            answer = blame_run(run, torch_replay.saves_tensor, list(self.steps))
            last = self.steps[-1]
            if answer.ended and not answer:
                return explain_error(answer, list(self.steps))
            if answer or last.backwards or not run.backwards:
                return add_training_faults(answer, list(self.steps))
            # What is computed after the last backward pass, such as a validation.
            return blame_run(last, torch_replay.saves_tensor) or add_training_faults(answer, list(self.steps))

    def explain(self, name: str) -> ObservedExplanation:
        """Say why the gradient of a parameter or input is absent, zero, not finite or what it is."""
        with self._pause() as run:
            return explain_run(run, name)

    def flow(self) -> ObservedFlow:
        """Measure gradients layer by layer, and find where they vanish, explode or stop, and faults of the training."""
        with self._pause() as run:
            return flow_run(run, [*self.steps])

    def check_backward(self, straight_through: Collection[Any] = ()) -> BackwardCheck:
        """Derive each op again from the recorded values, and name the op or custom function that sent something else.

        Custom functions in `straight_through`, classes or names, are meant to differ.
        """
        with self._pause() as run:
            return torch_replay.check_backward(run, straight_through)

    def _begin_update(self, optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._update_depth += 1
        if self._recorder is not None:
            run = self._recorder.run
            site = self._sites.find(sys._getframe(1))[0]
            groups = tuple(self._describe_group(group) for group in optimizer.param_groups)
            idle = ""
            # A closure computes the gradients when the step has begun.
            if not any(map(callable, (*args, *kwargs.values()))) and has_no_gradient(optimizer):
                waits = not run.backwards and any(run.tensors[k].requires_grad for op in run.ops for k in op.outputs)
                own = {name for group in groups for name in group.names}
                missed = "missed" if misses_parameters(run, self.steps, own) else "reset"
                idle = "early" if waits else missed
            self._update = ObservedUpdate(type(optimizer).__name__, site, len(run.ops), groups=groups, idle=idle)
            run.updates.append(self._update)
            self._updated.update(name for group in groups for name in group.names)
            added = filter(self._used_gradients.is_added, list_parameters(optimizer))
            run.accumulated += [self._recorder.book.look_up(parameter).name for parameter in added]

    def _describe_group(self, group: Mapping[str, Any]) -> UpdatedGroup:
        """Return the names and the numeric settings of a group of an optimizer's parameters."""
        assert self._recorder is not None
        book = self._recorder.book
        with torch._C._DisableTorchDispatch():
            settings = {key: float(value) for key, value in group.items() if is_number(value)}
        return UpdatedGroup(tuple(filter(None, map(book.find_name, group["params"]))), settings)

    def _end_update(self, optimizer: Any, *_: Any) -> None:
        if self._recorder is not None:
            self._optimized.update((id(parameter), parameter) for parameter in list_parameters(optimizer))
            self._used_gradients.note_update(list_parameters(optimizer))
        self._update_depth = 0
        self._update = None
        self._is_step_done = self._recorder is not None and self._recorder.run.backwards > 0

    def _begin_step(self) -> None:
        """Begin to record another step, unless the last one broke."""
        if self._recorder is not None:
            self._recorder.end_recording()
            if self._is_broken(join_linked_steps(list(self.steps))):
                step = self._recorder.run.step
                self._recorder = None
                # The program goes on, and writes over gradients and parameters of the step that broke.
                self._store.close()
                if self._stops:
                    raise NonFiniteError(f"the loss or a gradient of step {step} is not finite; ask seen.blame()")
                return
        while len(self.steps) >= MAX_STEPS or (len(self.steps) > 1 and self._is_store_full):
            self._release_oldest()
        if self.steps and self._is_store_full:
            # Under no_grad, as in a validation, the last training step is still what is asked about.
            self._has_kept_step = not torch.is_grad_enabled()
            if not self._has_kept_step:
                self._release_oldest()
        self._store.begin_step()
        self._modules.moded.clear()
        self._is_step_done = False
        self._recorder = StepRecorder(
            self.steps_seen,
            self._store,
            self._modules,
            self._sites,
            self._names,
            self._passes,
            ends_at_leaves=self.ends_at_leaves,
        )
        self._recorder.run.parameters = self._parameters
        self._recorder.run.watched = self._watched
        self._recorder.run.updated = self._updated
        self.steps.append(self._recorder.run)
        self.steps_seen += 1

    @property
    def _is_store_full(self) -> bool:
        """Whether half of the room is taken, so that another step would hold little."""
        return self._store.bytes > self._store.limit / 2

    def _release_oldest(self) -> None:
        oldest = self.steps.popleft()
        with torch._C._DisableTorchDispatch():
            remember_step(oldest, self.steps)
        self._ops_released += len(oldest.ops)
        self._store.release(oldest)

    def _is_broken(self, run: ObservedRun) -> bool:
        """Return whether a step broke; one that a gradient scaler skips did not, unless that goes on and on."""
        if not has_broken(run):
            self._skipped = 0
            return False
        self._skipped += 1
        losses = [run.tensors[root].held for root in run.roots]
        is_skipped = run.is_scaled and all(held is None or is_finite(held) for held in losses)
        return not is_skipped or self._skipped > MAX_SKIPPED_STEPS

    def run_op(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any], frame: FrameType) -> Any:
        """Run an op, and record it if it belongs to the program."""
        form = self._forms.get(func)
        if form is None:
            form = self._forms[func] = describe_op(func)
        if form.counts_lists:
            return self._run_list_op(func, form, args, kwargs, frame)
        return self._run_single_op(func, form, args, kwargs, frame)

    def _run_list_op(
        self, func: Any, form: OpSchema, args: Sequence[Any], kwargs: dict[str, Any], frame: FrameType
    ) -> Any:
        """Run an op that writes lists of tensors, and count the writes as PyTorch does.

        Inside of a dispatch mode these ops do not count them, so that autograd would not notice an overwritten value.
        """
        written = [tensor for tensor in find_written(form, args, kwargs) if not tensor.is_inference()]
        versions = [tensor._version for tensor in written]
        result = self._run_single_op(func, form, args, kwargs, frame)
        uncounted = [tensor for tensor, before in zip(written, versions, strict=True) if tensor._version == before]
        if uncounted:
            torch.autograd.graph.increment_version(uncounted)
        return result

    def _run_single_op(
        self, func: Any, form: OpSchema, args: Sequence[Any], kwargs: dict[str, Any], frame: FrameType
    ) -> Any:
        if self._recorder is None or form.namespace in UNRECORDED_NAMESPACES:
            return func(*args, **kwargs)
        if any(map(is_lazy, args)):
            # A parameter without a shape has no numbers that could be recorded.
            return func(*args, **kwargs)
        if self._is_internal(frame):
            return self._run_unrecorded(func, form, args, kwargs)
        if self.splits_steps and self._is_step_done and not self._backward_depth:
            self._begin_step()
            if self._recorder is None:
                return func(*args, **kwargs)
        if self._modules.added:
            self._name_parameters()
        phase = "backward" if self._backward_depth else "forward"
        return self._recorder.run_op(func, form, args, kwargs, frame, phase)

    def _is_internal(self, frame: FrameType) -> bool:
        """Return whether an op belongs to a backward pass or an update, and not to the program."""
        if (self._backward_depth or self._update_depth) and not torch.is_grad_enabled():
            return True
        return frame.f_code.co_filename == str(BACKWARD_FILE)

    def _run_unrecorded(self, func: Any, form: OpSchema, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        written = find_written(form, args, kwargs)
        if not written:
            return func(*args, **kwargs)
        if self._update is not None:
            for entry in filter(None, map(self._store.find_entry, written)):
                self._update.storages.setdefault(entry.number, entry.version)
        self._store.begin_write(written)
        result = func(*args, **kwargs)
        self._store.end_write(written, None)
        return result

    def _name_parameters(self) -> None:
        """Note the names of the parameters and buffers of modules that were added."""
        if self._recorder is None:
            return
        added = self._modules.added
        for prefix, root in added:
            named = [("parameter", root.named_parameters(prefix)), ("buffer", root.named_buffers(prefix))]
            for kind, pairs in named:
                for name, tensor in pairs:
                    # A module around one that is known has its parameters, which keep their names.
                    own = name if is_lazy(tensor) else self._recorder.book.name_tensor(tensor, kind, name)
                    if kind == "parameter":
                        self._parameters[own] = tensor.requires_grad
                        self._watched += [own] if root is self._model else []
        # The parameters of a lazy module that runs are named with the next op.
        self._modules.added = [(prefix, root) for prefix, root in added if has_lazy_parameters(root)]


def is_number(value: Any) -> bool:
    """Return whether a setting is a number, or a tensor of one."""
    return isinstance(value, bool | int | float) or (isinstance(value, torch.Tensor) and value.numel() == 1)


def misses_parameters(run: ObservedRun, steps: Iterable[ObservedRun], names: Collection[str]) -> bool:
    """Return whether the backward passes of a step sent nothing but 0 to these parameters.

    What they sent through the graph of a step before is recorded there.
    """
    passes = {gradient.backward for gradient in run.gradients}
    sent = [
        (step, held)
        for step in steps
        for gradient in step.gradients
        for held, target in zip(gradient.sent, gradient.targets, strict=False)
        if gradient.backward in passes and target is not None and step.tensors[target].name in names
    ]
    with torch._C._DisableTorchDispatch():
        return bool(passes) and all(held is None or is_zero(step, held) for step, held in sent)


def has_no_gradient(optimizer: Any) -> bool:
    """Return whether all gradients that an optimizer would use are absent or 0."""
    gradients = [parameter.grad for parameter in list_parameters(optimizer) if parameter.grad is not None]
    with torch._C._DisableTorchDispatch():
        return all(not gradient.is_sparse and not gradient.any() for gradient in gradients)


def list_parameters(optimizer: Any) -> list[Any]:
    """Return the parameters that an optimizer changes."""
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def read_limit(keep: int | str) -> float | None:
    """Return the number of bytes to hold: `auto`, `all`, `summaries` or a number; None where the program decides."""
    limits = {"auto": None, "all": float("inf"), "summaries": 0.0}
    if isinstance(keep, str) and keep in limits:
        return limits[keep]
    if isinstance(keep, bool) or not isinstance(keep, int) or keep < 0:
        raise InputError(f"keep must be 'auto', 'all', 'summaries' or a number of bytes; got {short_repr(keep)}")
    return keep


def has_broken(run: ObservedRun) -> bool:
    """Return whether the start of a backward pass, or the gradient of something from outside, is not finite."""
    held = [run.tensors[root].held for root in run.roots]
    for gradient in run.gradients:
        for sent, target in zip(gradient.sent, gradient.targets, strict=False):
            if target is not None and run.tensors[target].producer is None:
                held.append(sent)
    return any(value is not None and not is_finite(value) for value in held)


def is_finite(held: HeldValue) -> bool:
    """Return whether all numbers of a value are finite."""
    if held.summary is not None:
        return not (held.summary.nans or held.summary.infs)
    return held.value is None or bool(torch.isfinite(held.value).all())
