"""Turn a PyTorch run into a circuit: `from_torch`, and the circuit of an observed run.

The ops of the run become nodes one after the other, by the map in `torch_ops`. A tensor is a wire if something that can
be differentiated is in it, and otherwise a plain array with the numbers that PyTorch had. A write in place gives the
storage another content: a view that is read later is gathered from it. Ops that the map does not have are decomposed by
PyTorch's own rules; what is left is listed in one error, or kept as nodes that call PyTorch.

What a circuit takes for granted is certified, as in a traced circuit: indices and masks that were computed from wires,
and numbers that left the tensors by `item()`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import Enum, auto
from itertools import zip_longest
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from wiregrad.backends import interpreter
from wiregrad.dtypes import WIRE_DTYPES, WireType
from wiregrad.errors import (
    CheckError,
    InputError,
    NoRuleError,
    UnknownOpsError,
    WiregradError,
    require_package,
    short_repr,
)
from wiregrad.exchange.observed_run import (
    ObservedOp,
    ObservedRun,
    ObservedTensor,
    RunQuestions,
    TensorRef,
    find_ancestors,
    write_group,
    write_name,
)
from wiregrad.exchange.torch_ops import CHECKERS, CONDITIONS, SAMPLERS, SETTLED, SHAPE_READERS, find_entry, fn
from wiregrad.exchange.torch_watch import TorchWatch
from wiregrad.frontends.recording.arguments import PackedParts
from wiregrad.frontends.recording.custom_ops import FUNCTION_OP
from wiregrad.ir import TABLE, CircuitGraph
from wiregrad.ir.builder import GraphBuilder, Port
from wiregrad.ir.circuit import CIRCUIT_MAKERS
from wiregrad.ir.columns import Certificate
from wiregrad.ir.op import CONSTANT_CODE, Op, Pattern
from wiregrad.lazy import load_module_lazily, pause_collection
from wiregrad.ops.array_ops import LinearOp
from wiregrad.ops.gradient_flow import shape_of
from wiregrad.passes import prune

with require_package("torch", "importing a PyTorch program"):
    import torch
    from torch.overrides import TorchFunctionMode

if TYPE_CHECKING:
    from torch import _decomp
else:
    # It takes longer to load than everything else that a watch needs.
    _decomp = load_module_lazily("torch._decomp")

REFUSALS = (WiregradError, ArithmeticError, LookupError, TypeError, ValueError)
"""What an entry raises for arguments that it has no place for, such as axes of a tensor that has none."""
MAX_DECOMPOSITIONS = 16
"""How deeply ops are decomposed into ops that are decomposed in turn."""


class _Missing:
    """A result without a wire: of an op that is unknown, or one that has no place in a circuit."""

    def __init__(self, op: str, place: object) -> None:
        self.op = op
        self.place = place


def to_array(tensor: Any) -> Any:
    """Return a copy of a tensor's numbers as NumPy has them, in a dtype that a wire can have.

    bfloat16 and others that NumPy does not have become float32; small whole numbers become int64.
    """
    plain = tensor.detach().resolve_conj().resolve_neg().cpu()
    if hasattr(np, str(plain.dtype).removeprefix("torch.")):
        array = np.array(plain.numpy())
    else:
        array = np.array((plain.cfloat() if plain.is_complex() else plain.float()).numpy())
    return (array if array.dtype in WIRE_DTYPES else array.astype(np.int64))[()]


def to_tensor(x: Any) -> Any:
    """Return an array or number as a tensor of its own."""
    return torch.from_numpy(np.array(x))


def name_dtype(dtype: str) -> np.dtype[Any]:
    """Return the dtype of the wire of a tensor, given PyTorch's name.

    >>> name_dtype("bfloat16"), name_dtype("int32"), name_dtype("complex64")
    (dtype('float32'), dtype('int64'), dtype('complex64'))
    """
    if not hasattr(np, dtype):
        return np.dtype(np.complex64 if dtype.startswith("complex") else np.float32)
    found = np.dtype(dtype)
    return found if found in WIRE_DTYPES else np.dtype(np.int64)


class StorageContents:
    """The numbers of each storage, version by version, for views that are read after a write through another view."""

    def __init__(self, run: ObservedRun, read: Callable[[int], Any]) -> None:
        self._run = run
        self._read = read
        self._members: dict[int, list[ObservedTensor]] = {}
        for tensor in run.tensors:
            self._members.setdefault(tensor.storage, []).append(tensor)
        self._rows: dict[tuple[int, int], tuple[Any, Any]] = {}
        self._written: dict[tuple[int, int], list[int]] = {}
        self.wired: set[int] = set()
        """The storages that a wire was written to, or whose content is a wire."""

    def note_write(self, tensor: ObservedTensor) -> None:
        """Note that an op wrote a tensor."""
        self._written.setdefault((tensor.storage, tensor.version), []).append(tensor.index)

    def find_same(self, view: ObservedTensor) -> ObservedTensor | None:
        """Return the same part of the storage as it was last seen before, with or without a gradient as the view."""
        form = view.offset, view.shape, view.stride, view.dtype, view.requires_grad
        for tensor in reversed(self._members[view.storage]):
            own = tensor.offset, tensor.shape, tensor.stride, tensor.dtype, tensor.requires_grad
            if own == form and tensor.index < view.index:
                return tensor
        return None

    def find_untouched(self, view: ObservedTensor) -> ObservedTensor | None:
        """Return the same part of the storage as it was seen before, if nothing was written to that part since."""
        same = self.find_same(view)
        places = find_places(view).ravel()
        return None if same is None or self._is_written(view, same.version, places) else same

    def _is_written(self, view: ObservedTensor, since: int, places: Any) -> bool:
        """Return whether some places were written after a version and up to that of the view."""
        for version in range(since + 1, view.version + 1):
            numbers = self._written.get((view.storage, version))
            if numbers is None:
                return True
            if any(np.isin(find_places(self._run.tensors[k]), places).any() for k in numbers):
                return True
        return False

    def read_view(self, view: ObservedTensor) -> Any:
        """Return the elements of a view, gathered from its storage."""
        row, filled = self._read_row(view)
        places = find_places(view)
        if not filled[places].all():
            raise NoRuleError(f"a view of {view.shape} elements of a tensor that was not seen whole")
        flat = places.ravel()
        is_run = flat.size > 0 and np.array_equal(flat, np.arange(flat[0], flat[0] + flat.size))
        part = fn.getitem(row, slice(int(flat[0]), int(flat[-1]) + 1)) if is_run else fn.take(row, flat)
        return fn.reshape(part, view.shape)

    def _read_row(self, view: ObservedTensor) -> tuple[Any, Any]:
        """Return the elements of a view's storage in a row, and which of them are known."""
        storage = view.storage
        version = start = view.version
        while start > 0 and (storage, start) in self._written and (storage, start) not in self._rows:
            start -= 1
        if (storage, start) not in self._rows:
            self._rows[storage, start] = self._read_first(view, start)
        for k in range(start + 1, version + 1):
            row, filled = self._rows[storage, k - 1]
            for number in self._written[storage, k]:
                row, filled = self._write(row, filled, self._run.tensors[number])
            self._rows[storage, k] = row, filled
        return self._rows[storage, version]

    def _read_first(self, view: ObservedTensor, version: int) -> tuple[Any, Any]:
        """Return a storage as the tensors of one version show it that were seen before the view, the largest first."""
        members = self._members[view.storage]
        if any(tensor.dtype != view.dtype for tensor in members):
            raise NoRuleError("a view of another dtype of a tensor that is written in place")
        size = max(int(find_places(tensor).max(initial=-1)) for tensor in members) + 1
        row: Any = np.zeros(size, name_dtype(view.dtype))
        filled = np.zeros(size, bool)
        earlier = [tensor for tensor in members if tensor.index < view.index and tensor.version == version]
        for tensor in sorted(earlier, key=lambda member: -int(np.prod(member.shape))):
            known = tensor.producer is not None or tensor.writer is None
            if known and not filled[find_places(tensor)].all():
                row, filled = self._write(row, filled, tensor)
        return row, filled

    def _write(self, row: Any, filled: Any, tensor: ObservedTensor) -> tuple[Any, Any]:
        places = find_places(tensor).ravel()
        value = fn.ravel(self._read(tensor.index))
        now = filled.copy()
        now[places] = True
        if places.size == filled.size and now.all():
            inverse = np.argsort(places)
            is_ordered = np.array_equal(inverse, np.arange(places.size))
            return (value if is_ordered else fn.take(value, inverse)), now
        return fn.put(row, places, value), now


def find_places(tensor: ObservedTensor) -> Any:
    """Return the place of each element of a tensor in its storage."""
    places = np.full(tensor.shape, tensor.offset)
    for axis, (length, stride) in enumerate(zip(tensor.shape, tensor.stride, strict=True)):
        places += (np.arange(length) * stride).reshape((-1,) + (1,) * (len(tensor.shape) - axis - 1))
    return places


class TorchCall:
    """One call of an op that stays PyTorch's: PyTorch computes its value and its gradient.

    It is the `call` of a node of the op for functions of the user's own.
    """

    def __init__(self, op: ObservedOp, overload: Any, arguments: Any, wires: Sequence[int], outputs: Any) -> None:
        self.called = op.name
        self.overload = overload
        self.arguments = arguments
        """The positional and named arguments, with a `TensorRef` where a wire comes in."""
        self.wires = tuple(wires)
        self.parts = PackedParts(outputs)

    @property
    def identity(self) -> tuple[Any, ...]:
        """The key that tells calls apart."""
        return (id(self),)

    def compute(self, tensors: Sequence[Any]) -> list[Any]:
        """Run the op with tensors at the places of its wires; returns the tensors among its results."""
        filled = dict(zip(self.wires, tensors, strict=True))

        def fill(value: Any) -> Any:
            if isinstance(value, TensorRef):
                return filled[value.number].clone()
            if isinstance(value, list | tuple):
                return [fill(part) for part in value]
            return {name: fill(part) for name, part in value.items()} if isinstance(value, dict) else value

        args, keywords = fill(self.arguments)
        return list(list_result_tensors(self.overload(*args, **keywords)))

    def run_forward(self, xs: Sequence[Any]) -> SimpleNamespace:
        """Run the op on arrays; returns its results as `outputs`."""
        with torch.no_grad():
            return SimpleNamespace(outputs=[to_array(part) for part in self.compute([to_tensor(x) for x in xs])])

    def pull_gradient(self, slot: int, g: object, xs: Sequence[Any], y: object) -> Any:
        """Return the gradient that PyTorch sends to one of the wires."""
        if not isinstance(g, np.ndarray | np.generic | float):
            raise NoRuleError(f"{self.called} is computed by PyTorch: it has neither a circuit nor second derivatives")
        leaves = [to_tensor(x) for x in xs]
        if not leaves[slot].is_floating_point() and not leaves[slot].is_complex():
            return None
        leaves[slot].requires_grad_()
        with torch.enable_grad():
            outputs = self.compute(leaves)
        upstream = self.parts.unpack(g, zeros=True)
        pairs = [(outputs[k], to_tensor(upstream[k])) for k in self.parts.moving if outputs[k].requires_grad]
        if not pairs:
            return None
        results, gradients = zip(*pairs, strict=True)
        (gradient,) = torch.autograd.grad(results, leaves[slot], gradients, allow_unused=True)
        return None if gradient is None else to_array(gradient)


class RunTranslator:
    """Builds the nodes of one observed run on a builder."""

    def __init__(self, run: ObservedRun, builder: GraphBuilder, is_input: Callable[[ObservedTensor], bool]) -> None:
        self.run = run
        self.builder = builder
        self.is_input = is_input
        self.point: dict[str, Any] = {}
        self.weights: list[str] = []
        """The inputs that are parameters of modules."""
        """The value of each input of the circuit in the run."""
        self.unknown: dict[str, list[Any]] = {}
        """The places of the ops that could not be translated, by op."""
        self.opaque = False
        self.is_whole = False
        """Whether the run is that of a whole function: what has a gradient and was not seen is hidden from it."""
        self.takes_numbers = False
        """Whether floating numbers from outside that are no input are in the circuit."""
        self._wires: dict[int, Any] = {}
        self._outside: dict[Any, Any] = {}
        self._storages = StorageContents(run, self.read)
        self._depth = 0
        self._widens = False
        """Whether tensors without axes are given to an entry as rows of one."""
        self._groups: dict[str, str] = {}
        self._op_groups: set[str] = set()
        """The groups that hold the nodes of one op; all others are modules."""
        builder.recording.note_library_groups(lambda: frozenset(self._op_groups))
        self._counts: dict[str, int] = {}
        """How many ops of each module compute something, and do not only view it."""
        for op in run.ops:
            storages = {run.tensors[number].storage for number in op.inputs}
            is_view = any(run.tensors[number].storage in storages for number in op.outputs)
            self._counts[op.module] = self._counts.get(op.module, 0) + (not is_view)

    def bind(self, number: int, value: Any) -> None:
        """Set the wire or array of a tensor."""
        self._wires[number] = value
        if isinstance(value, Port):
            self._storages.wired.add(self.run.tensors[number].storage)

    def translate(self, ops: Sequence[ObservedOp]) -> None:
        """Build the nodes of some ops; those of a backward pass are there only if it was differentiated itself."""
        for op, after in zip_longest(ops, ops[1:]):
            self._translate_op(op)
            if after is None or after.site is not op.site:
                self._note_text(op)

    def _note_text(self, op: ObservedOp) -> None:
        """Give the result of the last op of a call the text of the call as its title."""
        wires = [self._wires.get(number) for number in op.outputs]
        ports = [wire for wire in wires if isinstance(wire, Port)]
        if op.site is not None and len(ports) == 1 and op.site.text:
            self.builder.recording.note_expression(ports[0].index, op.site.text)

    def read(self, number: int) -> Any:
        """Return the wire of a tensor, or its numbers if it has none."""
        if number in self._wires:
            return self._wires[number]
        tensor = self.run.tensors[number]
        if tensor.producer is None and tensor.writer is not None and tensor.storage in self._storages.wired:
            self.bind(number, self._read_after_write(tensor))
            return self._wires[number]
        if tensor.producer is None and tensor.writer is None:
            return self._read_outside(tensor)
        if tensor.producer is not None and tensor.requires_grad:
            function = self.run.ops[tensor.producer].function
            if function is not None:
                # It has a gradient, but nothing that a gradient flows to is in it.
                name = self.run.functions[function].name
                return _Missing(f"{name}, a custom function whose forward does not compute with PyTorch", None)
        return self.find_array(number)

    def _read_after_write(self, view: ObservedTensor) -> Any:
        """Return a view of a storage that was written through another tensor."""
        untouched = self._storages.find_untouched(view)
        if untouched is not None:
            return self.read(untouched.index)
        value = self._storages.read_view(view)
        writer = self.run.ops[view.writer] if view.writer is not None else None
        is_tracked = writer is None or any(self.run.tensors[after].requires_grad for _, after in writer.written)
        before = self._storages.find_same(view)
        if is_tracked or before is None or not view.requires_grad:
            return value
        # The write went past autograd, as through `x.data`: the tensor has the gradient that it had before.
        return self._keep_flow(self.read(before.index), value)

    def find_array(self, number: int) -> Any:
        """Return the numbers that PyTorch had in a tensor."""
        tensor = self.run.tensors[number]
        if tensor.value is None:
            raise InputError(
                f"the numbers of a tensor of shape {tensor.shape} were not kept, and the circuit needs them: "
                "write wg.watch(model, keep='all')"
            )
        return to_array(tensor.value)

    def _read_outside(self, tensor: ObservedTensor) -> Any:
        """Return the input or constant that a tensor from outside becomes."""
        key = tensor.storage, tensor.offset, tensor.shape, tensor.stride, tensor.dtype, tensor.version
        if key not in self._outside:
            self._outside[key] = self._add_outside(tensor)
        self.bind(tensor.index, self._outside[key])
        return self._outside[key]

    def _add_outside(self, tensor: ObservedTensor) -> Any:
        if self.is_whole and not tensor.is_leaf:
            return _Missing("a tensor with a gradient that was made outside of the function", None)
        if tensor.value is not None and tensor.value.layout is not torch.strided:
            return _Missing(f"a tensor of layout {tensor.value.layout}", None)
        array = self.find_array(tensor.index)
        kind = WireType(array.dtype, array.shape)
        if not kind.differentiable:
            return array
        if self.is_input(tensor):
            name = self.builder.recording.free_name(write_name(tensor.name or "v"))
            self.point[name] = array
            self.weights += [name] if tensor.kind == "parameter" else []
            with self.builder.at(None, ""):
                return self.builder.input(name, kind)
        self.takes_numbers = self.takes_numbers or tensor.kind == "input"
        if tensor.kind == "buffer":
            return self.builder.place_constant(array, self.builder.recording.free_name(write_name(tensor.name)))
        return array

    def _translate_op(self, op: ObservedOp) -> None:
        recording = self.builder.recording
        recording.move_to(op.place, self._find_group(op.module))
        if not (op.outputs or op.written) and not any(number in self._wires for number in op.inputs):
            # Numbers that leave a tensor from outside, such as the loss of the step before.
            return
        values = [self.read(number) for number in op.inputs]
        first = len(recording)
        if any(isinstance(value, _Missing) for value in values):
            self._miss_results(op, values)
        elif any(isinstance(value, Port) for value in values):
            self._store_results(op, self._compute(op))
            self._group_nodes(op, first)
        for _, after in op.written:
            self._storages.note_write(self.run.tensors[after])

    def _find_group(self, module: str) -> str:
        if module not in self._groups:
            self._groups[module] = write_group(module, self.run.parents)
        return self._groups[module]

    def _group_nodes(self, op: ObservedOp, first: int) -> None:
        """Put the nodes of an op that takes several into a group of their own, unless its module has no other op."""
        if self._depth or self._counts[op.module] < 2:
            return
        recording = self.builder.recording
        table = TABLE.by_code()
        if sum(not moves_elements(table[code]) for code in recording.codes[first:]) > 1:
            # The name of a kernel's library says nothing about the model.
            label = op.title.strip("_").removeprefix("mkldnn_")
            around = self._find_group(op.module)
            group = f"{around}/{label}" if around else label
            recording.regroup_from(first, group)
            self._op_groups.add(group)

    def _compute(self, op: ObservedOp) -> Any:
        """Return the results of an op that reads a wire: wires and arrays, and None for what stays an array."""
        space, _, packet = op.name.partition(".")
        if packet in SHAPE_READERS or packet.rstrip("_") in SHAPE_READERS or packet in CHECKERS:
            return None
        if packet == "as_strided":
            return self._storages.read_view(self.run.tensors[op.outputs[0]])
        is_known = space in ("aten", "prims")
        entry = find_entry(packet) if is_known else None
        if entry is None and is_known and packet.endswith("_"):
            packet = packet[:-1]
            entry = find_entry(packet)
        overload = find_overload(op)
        try:
            if entry is not None:
                return self._cut_flow(op, self._apply_entry(op, entry, packet, overload))
            return self._compute_unmapped(op, overload)
        except NoRuleError as error:
            return self._miss(op, str(error))
        except REFUSALS as error:
            return self._miss(op, f"{op.name} with such arguments ({short_repr(str(error))})")

    def _apply_entry(self, op: ObservedOp, entry: Callable[..., Any], packet: str, overload: Any) -> list[Any]:
        """Return the results of an entry; a tensor without axes is a row of one where an axis is named."""
        try:
            return self._match_results(op, self._call_entry(op, entry, packet, overload))
        except (NoRuleError, *REFUSALS):
            if not any(self.run.tensors[number].shape == () for number in op.inputs):
                raise
        self._widens = True
        try:
            results = self._call_entry(op, entry, packet, overload)
        finally:
            self._widens = False
        parts = list(results) if isinstance(results, list | tuple) else [results]
        shapes = [self.run.tensors[number].shape for number in op.outputs]
        return self._match_results(
            op,
            [
                fn.reshape(part, shape) if isinstance(part, Port) and shape_of(part) == (1,) and shape == () else part
                for part, shape in zip_longest(parts, shapes)
            ],
        )

    def _call_entry(self, op: ObservedOp, entry: Callable[..., Any], packet: str, overload: Any) -> Any:
        settled = SETTLED.get(packet, ())
        conditions = CONDITIONS.get(packet, ())
        keywords = {name: value for name, value in op.keywords.items() if name not in list_out_keywords(overload)}
        if not settled and not conditions:
            return entry(*self._read_all(op.arguments), **self._read_all(keywords))
        bound = inspect.signature(entry).bind(*op.arguments, **keywords)
        for name, value in bound.arguments.items():
            kinds = "biufc" if name in settled else "b" if name in conditions else ""
            bound.arguments[name] = self._settle_all(value, kinds)
        return entry(*bound.args, **bound.kwargs)

    def _read_all(self, value: Any) -> Any:
        """Return arguments with wires and arrays in place of tensors."""
        return self._settle_all(value, "")

    def _settle_all(self, value: Any, kinds: str) -> Any:
        """Return arguments with wires and arrays in place of tensors; wires of some kinds become certified arrays."""
        if isinstance(value, TensorRef):
            if name_dtype(self.run.tensors[value.number].dtype).kind not in kinds:
                found = self.read(value.number)
            else:
                self.certify(value.number)
                found = np.asarray(self.find_array(value.number))
            return fn.reshape(found, (1,)) if self._widens and shape_of(found) == () else found
        if isinstance(value, list | tuple):
            return [self._settle_all(part, kinds) for part in value]
        if isinstance(value, dict):
            return {name: self._settle_all(part, kinds) for name, part in value.items()}
        return np.complex128(value) if isinstance(value, complex) else value

    def certify(self, number: int) -> None:
        """Note that the circuit is right only where a wire has the value that it had in the run."""
        wire = self.read(number)
        recording = self.builder.recording
        if isinstance(wire, Port) and recording.codes[wire.index] != CONSTANT_CODE:
            recording.certificates.append(Certificate(wire.index, self.find_array(number), recording.place))

    def _cut_flow(self, op: ObservedOp, results: Any) -> Any:
        """Stop gradients where PyTorch recorded none; the ops of a custom function have one all the same."""
        if op.grad_enabled or op.function is not None or self._depth:
            return results
        parts = results if isinstance(results, list | tuple) else [results]
        if len(op.written) == 1 and len(parts) == 1:
            # What is written in place keeps the gradient of the tensor: for autograd nothing has happened.
            return [self._keep_flow(self.read(op.written[0][0]), parts[0])]
        return [TABLE["stop_gradient"](part) if isinstance(part, Port) else part for part in parts]

    def _keep_flow(self, before: Any, after: Any) -> Any:
        """Return the value of one wire with the gradient of another; an array has none."""
        stopped = TABLE["stop_gradient"](after) if isinstance(after, Port) else after
        if not isinstance(before, Port):
            return stopped
        return fn.broadcast_to(stopped, shape_of(before)) + (before - TABLE["stop_gradient"](before))

    def _compute_unmapped(self, op: ObservedOp, overload: Any) -> Any:
        """Decompose an op, take its numbers as they are where no gradient can flow through them, or keep it whole."""
        outputs = [self.run.tensors[number] for number in (*op.outputs, *(after for _, after in op.written))]
        if op.name.partition(".")[2].rstrip("_") in SAMPLERS:
            return None
        decomposition = find_decomposition(overload)
        if decomposition is not None and self._depth < MAX_DECOMPOSITIONS:
            return self._decompose(op, decomposition)
        if not any(name_dtype(tensor.dtype).kind in "fc" for tensor in outputs):
            for number in op.inputs:
                self.certify(number)
            return None
        return self._miss(op, op.name)

    def _decompose(self, op: ObservedOp, decomposition: Callable[..., Any]) -> Any:
        """Run PyTorch's decomposition of an op on the numbers of the run, and translate what it ran."""
        copies: dict[str, Any] = {}
        arguments = self._copy_tensors((op.arguments, op.keywords), copies)
        watch = TorchWatch(keep="all")
        with torch.no_grad(), watch:
            watch.name_inputs(copies)
            results = decomposition(*arguments[0], **arguments[1])
            found = [watch.find_tensor(part).index for part in list_result_tensors(results)]
        numbers = list(op.outputs) or [after for _, after in op.written]
        for number, inner_number in zip(numbers, found, strict=False):
            if not are_near(to_array(watch.steps[-1].tensors[inner_number].value), self.find_array(number)):
                # Not all of PyTorch's decompositions are right.
                return self._miss(op, op.name)
        inner = RunTranslator(watch.steps[-1], self.builder, lambda _: False)
        inner._depth = self._depth + 1
        inner.unknown = self.unknown
        inner.opaque = self.opaque
        for tensor in inner.run.tensors:
            if tensor.producer is None and tensor.name in copies:
                inner.bind(tensor.index, self.read(int(tensor.name.removeprefix("tensor "))))
        inner._translate_at(op)
        return self._cut_flow(op, self._match_results(op, [inner.read(number) for number in found]))

    def _translate_at(self, op: ObservedOp) -> None:
        """Build the nodes of all ops at the place of the op that they make up."""
        for inner in self.run.ops:
            self._translate_op(replace(inner, site=op.site, module=op.module))

    def _copy_tensors(self, value: Any, copies: dict[str, Any]) -> Any:
        """Return arguments with copies of the run's tensors, one for each tensor, noted by name."""
        if isinstance(value, TensorRef):
            name = f"tensor {value.number}"
            if name not in copies:
                self.find_array(value.number)
                copies[name] = self.run.tensors[value.number].value.clone()
            return copies[name]
        if isinstance(value, list | tuple):
            return [self._copy_tensors(part, copies) for part in value]
        if isinstance(value, dict):
            return {name: self._copy_tensors(part, copies) for name, part in value.items()}
        return value

    def _miss(self, op: ObservedOp, text: str) -> Any:
        """Note an op that cannot be translated, or keep it whole; its results have no wires then."""
        if self.opaque:
            return self._keep_whole(op)
        self.unknown.setdefault(text, []).append(op.place)
        count = len(op.outputs) or len(op.written)
        return [_Missing(text, op.place)] * count

    def _keep_whole(self, op: ObservedOp) -> Any:
        """Add a node that calls PyTorch; returns a wire for each result that can be differentiated."""
        wires = [number for number in dict.fromkeys(op.inputs) if isinstance(self.read(number), Port)]
        outputs = [self.find_array(number) for number in op.outputs]
        arguments = self._fix_tensors((op.arguments, op.keywords), wires)
        call = TorchCall(op, find_overload(op), arguments, wires, outputs)
        packed = np.asarray(call.parts.pack(outputs))
        recording = self.builder.recording
        index = recording.append_op(
            FUNCTION_OP.bind_once(call=call),
            [self.read(number).index for number in wires],
            WireType(packed.dtype, packed.shape),
        )
        return self._unpack_parts(call.parts, Port(self.builder, index))

    def _fix_tensors(self, value: Any, wires: Sequence[int]) -> Any:
        """Return arguments with copies of the run's tensors, except those that are wires."""
        if isinstance(value, TensorRef):
            return value if value.number in wires else to_tensor(self.find_array(value.number))
        if isinstance(value, list | tuple):
            return [self._fix_tensors(part, wires) for part in value]
        if isinstance(value, dict):
            return {name: self._fix_tensors(part, wires) for name, part in value.items()}
        return value

    def _unpack_parts(self, parts: PackedParts, packed: Port) -> list[Any]:
        """Return the results of a call, of which those that can be differentiated are joined in one wire."""
        results: list[Any] = [None] * (len(parts.moving) + len(parts.still))
        start = 0
        for k, (shape, _) in zip(parts.moving, parts.kinds, strict=True):
            size = int(np.prod(shape))
            alone = len(parts.moving) == 1
            results[k] = packed if alone else fn.reshape(fn.getitem(packed, slice(start, start + size)), shape)
            start += size
        return results

    def _miss_results(self, op: ObservedOp, values: Sequence[Any]) -> None:
        """Mark the results of an op that reads a result without a wire."""
        missing = next(value for value in values if isinstance(value, _Missing))
        for number in (*op.outputs, *(after for _, after in op.written)):
            self._wires[number] = missing

    def _store_results(self, op: ObservedOp, results: Any) -> None:
        """Set the wires of an op's results, and of what it wrote."""
        if results is None:
            return
        parts = list(results) if isinstance(results, list | tuple) else [results]
        numbers = list(op.outputs) or [after for _, after in op.written]
        for k, (number, part) in enumerate(zip(numbers, parts, strict=False)):
            if isinstance(part, Port):
                self.bind(number, part)
            elif part is None:
                self._wires[number] = _Missing(f"{op.name} (result {k + 1})", op.place)
            elif isinstance(part, _Missing):
                self._wires[number] = part

    def _match_results(self, op: ObservedOp, results: Any) -> list[Any]:
        """Return the results of an op in the dtypes and shapes that PyTorch gave them."""
        parts = list(results) if isinstance(results, list | tuple) else [results]
        numbers = list(op.outputs) or [after for _, after in op.written]
        matched = [
            self._match_type(op, number, part) if isinstance(part, Port) else part
            for number, part in zip(numbers, parts, strict=False)
        ]
        return matched + parts[len(matched) :]

    def _match_type(self, op: ObservedOp, number: int, wire: Port) -> Port:
        """Return a result in the dtype that PyTorch gave it; raise if the map gives it another shape."""
        tensor = self.run.tensors[number]
        if shape_of(wire) != tensor.shape and op.written:
            wire = fn.broadcast_to(wire, tensor.shape)
        if shape_of(wire) != tensor.shape:
            raise NoRuleError(f"{op.name}, whose result has shape {tensor.shape} and not {shape_of(wire)},")
        dtype = name_dtype(tensor.dtype)
        if wire.dtype == dtype:
            return wire
        if wire.dtype.kind == "c" and dtype.kind == "f":
            wire = TABLE["real"](wire)
        cast: Port = wire if wire.dtype == dtype else TABLE["cast"](wire, dtype=dtype.name)
        return cast


def moves_elements(op: Op) -> bool:
    """Return whether an op computes nothing: it brings a wire in, or puts elements elsewhere."""
    return op.pattern is Pattern.SOURCE or isinstance(op, LinearOp)


def find_overload(op: ObservedOp) -> Any:
    """Return PyTorch's op."""
    space, _, packet = op.name.partition(".")
    return getattr(getattr(getattr(torch.ops, space), packet), op.overload or "default")


def list_out_keywords(overload: Any) -> list[str]:
    """Return the keywords of an op that it writes its results to."""
    return [
        argument.name
        for argument in overload._schema.arguments
        if argument.kwarg_only and argument.alias_info and argument.alias_info.is_write
    ]


def find_decomposition(overload: Any) -> Callable[..., Any] | None:
    """Return PyTorch's decomposition of an op; for one that writes in place, that of the op that does not."""
    decomposition: Callable[..., Any] | None = _decomp.decomposition_table.get(overload)
    name = overload._schema.name.partition("::")[2]
    if decomposition is None and name.endswith("_"):
        packet = getattr(torch.ops.aten, name[:-1], None)
        plain = getattr(packet, overload._overloadname, None) if packet is not None else None
        decomposition = _decomp.decomposition_table.get(plain)
    return decomposition


def list_result_tensors(value: Any) -> Iterator[Any]:
    """Yield the tensors of nested tuples, lists and dicts, in order."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from list_result_tensors(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from list_result_tensors(part)


def build_circuit(
    run: ObservedRun,
    outputs: Mapping[str, int],
    is_input: Callable[[ObservedTensor], bool],
    *,
    name: str,
    first: Sequence[int] = (),
    escaped: Iterable[int] = (),
    opaque: bool = False,
) -> tuple[CircuitGraph, dict[str, Any], list[str]]:
    """Return the circuit of an observed run, the values of its inputs, and which of them are parameters.

    `outputs` are tensors by label.

    The tensors in `first` are its first inputs, used or not. Those in `escaped` left PyTorch as numbers, so that the
    circuit is right only where they are the same.
    """
    builder = GraphBuilder(finite=False)
    translator = RunTranslator(run, builder, is_input)
    translator.opaque = opaque
    translator.is_whole = bool(first)
    for number in first:
        translator.read(number)
    translator.translate(run.ops if first else list_needed_ops(run, list(outputs.values())))
    # Gradients that were not recorded come in as plain numbers, which belong to this point.
    for number in (*escaped, *(first if run.backwards and translator.takes_numbers else ())):
        translator.certify(number)
    labels = {label: translator.read(number) for label, number in outputs.items()}
    missing = [value for value in labels.values() if isinstance(value, _Missing)]
    if missing:
        for value in missing:
            translator.unknown.setdefault(value.op, [value.place])
        raise UnknownOpsError(f"{name} (opaque=True keeps them as calls of PyTorch)", translator.unknown)
    free = builder.recording.free_name
    ports = {free(label): _as_port(builder, value) for label, value in labels.items()}
    circuit = builder.build(name=write_name(name), labels=ports)
    inputs = interpreter.bind_inputs(circuit, [translator.point], {})
    wanted = [*circuit.columns.outputs.tolist(), *(certificate.node for certificate in circuit.certificates)]
    values = interpreter.evaluate_nodes(circuit, inputs, wanted)
    if not all(is_as_observed(translator, values, number) for number in outputs.values()):
        report_difference(translator, interpreter.evaluate_nodes(circuit, inputs))
    return prune(settle_certificates(circuit, values)), translator.point, translator.weights


def list_needed_ops(run: ObservedRun, outputs: Sequence[int]) -> list[ObservedOp]:
    """Return the ops from which some tensors were computed, and those that read numbers on the way there."""
    last = max((run.tensors[number].producer or 0 for number in outputs), default=0)
    readers = [op for op in run.ops[:last] if not (op.outputs or op.written)]
    # The loss of an earlier backward pass is read to be shown.
    readers = [op for op in readers if set(op.inputs).isdisjoint(run.earlier_roots)]
    read = [number for op in readers for number in op.inputs]
    tensors = [run.tensors[number] for number in find_ancestors([*outputs, *read], run.parents_of)]
    needed = {tensor.producer for tensor in tensors} | {tensor.writer for tensor in tensors}
    needed |= {op.index for op in readers}
    return [op for op in run.ops if op.index in needed]


def _as_port(builder: GraphBuilder, value: Any) -> Port:
    return value if isinstance(value, Port) else builder.place_constant(value)


def are_near(ours: Any, theirs: Any, eps: float = 0.0) -> bool:
    """Return whether two arrays are equal up to rounding; what is not finite is not compared.

    >>> are_near(np.array([1.0, np.nan]), np.array([1.0 + 1e-9, 2.0])), are_near(1.0, 1.001)
    (True, False)
    """
    a = np.asarray(ours)
    b = np.asarray(theirs)
    if a.dtype.kind not in "fc" or b.dtype.kind not in "fc":
        return np.array_equal(a, b)
    finite = np.isfinite(a) & np.isfinite(b)
    tolerance = 10.0 * np.sqrt(max(eps, float(np.finfo(b.dtype).eps)))
    scale = 1.0 + np.max(np.abs(b[finite]), initial=0.0)
    return bool(np.max(np.abs(a[finite] - b[finite]), initial=0.0) <= tolerance * scale)


def is_as_observed(translator: RunTranslator, values: Sequence[Any], number: int) -> bool:
    """Return whether the circuit computed what PyTorch did for a tensor, up to the coarsest rounding in the run."""
    wire = translator.read(number)
    if not isinstance(wire, Port):
        return True
    floats = {tensor.dtype for tensor in translator.run.tensors if "float" in tensor.dtype}
    eps = max((float(torch.finfo(getattr(torch, dtype)).eps) for dtype in floats), default=0.0)
    return are_near(values[wire.index], translator.find_array(number), eps)


def report_difference(translator: RunTranslator, values: Sequence[Any]) -> None:
    """Raise an error that names the first op whose result in the circuit is not what PyTorch computed."""
    for op in translator.run.ops:
        if not all(is_as_observed(translator, values, number) for number in op.outputs):
            raise CheckError(
                f"the circuit does not compute what PyTorch computed, from {op.name} on ({op.place}); "
                "please report this, with the op and its arguments"
            )


def settle_certificates(circuit: CircuitGraph, values: Sequence[Any]) -> CircuitGraph:
    """Return the circuit with its own values in the certificates of numbers.

    PyTorch's values may differ from them in the last bits; conditions and whole numbers may not.
    """
    settled = tuple(
        certificate._replace(outcome=values[certificate.node])
        if circuit.type_of(certificate.node).differentiable
        else certificate
        for certificate in circuit.certificates
    )
    return type(circuit)(replace(circuit.columns, certificates=settled))


class WatchedProgram(TorchWatch, RunQuestions):
    """What PyTorch did inside a `with` block of `wg.watch`: ask it, or take it as a circuit."""

    refusal = ""
    """Why a function was watched without a gradient of its arguments, in PyTorch's words."""

    def circuit(self, *, opaque: bool = False) -> Any:
        """Return the circuit of the last step with a backward pass, from inputs and parameters to what it started at.

        Its gradients follow wiregrad's rules; what PyTorch computed is in the watch itself. Parameters, tensors that
        require a gradient, and floating tensors that a variable holds are inputs; `run()` uses the values they had.
        Ops that wiregrad does not know raise `UnknownOpsError`; with `opaque=True` they are nodes that call PyTorch.
        """
        if not any(run.ops for run in self.steps):
            raise InputError("nothing was recorded: run the model inside the with block of wg.watch(model)")
        run = self.run
        with pause_collection():
            imported = build_circuit(run, find_outputs(run), is_named_input, name="program", opaque=opaque)
        return make_circuit(*imported)


def watch_function(
    function: Callable[..., Any], args: Sequence[Any], keywords: Mapping[str, Any], *, whole: bool = False
) -> WatchedProgram:
    """Watch a function or module at copies of its arguments, with the gradient of its first result.

    With `whole`, a gradient of 1 is sent back from every number of all results instead. `.grad` of the tensors that the
    caller holds is left as it was.
    """
    try:
        return _watch_gradient(function, args, keywords, InputKind.LEAF, whole=whole)
    except RuntimeError as error:
        try:
            # PyTorch refuses writes in place to a leaf that has a gradient.
            return _watch_gradient(function, args, keywords, InputKind.COPY, whole=whole)
        except RuntimeError:
            # Some arguments cannot have a gradient, such as those that the function gives to NumPy.
            seen = _watch_gradient(function, args, keywords, InputKind.PLAIN, whole=whole)
        seen.refusal = str(error).partition("\n")[0]
        return seen


class InputKind(Enum):
    """What a function that is watched gets: leaves that have a gradient, copies of such leaves, or plain tensors."""

    LEAF = auto()
    COPY = auto()
    PLAIN = auto()


def _watch_gradient(
    function: Callable[..., Any], args: Sequence[Any], keywords: Mapping[str, Any], kind: InputKind, *, whole: bool
) -> WatchedProgram:
    """Run a function on what `kind` says, and send a gradient of 1 back from what it returns."""
    seen = WatchedProgram(function if isinstance(function, torch.nn.Module) else None, keep="all")
    seen.name_modules(find_modules(function))
    leaves: dict[str, Any] = {}
    copied, named = _copy_arguments(function, args, keywords, leaves, kind is not InputKind.PLAIN)
    with torch.enable_grad(), seen:
        seen.name_inputs(leaves)
        if kind is InputKind.COPY:
            clones = {id(leaf): leaf.clone() for leaf in leaves.values()}
            copied, named = _replace_tensors((copied, named), clones)
        result = function(*copied, **named)
        roots = [tensor for tensor in _list_roots(result, whole=whole) if tensor.requires_grad]
        has_run_backward = any(step.backwards for step in seen.steps)
        try:
            if roots:
                _send_ones_back(roots)
        except RuntimeError:
            # The function has used up its graph by a backward pass of its own, which is then the one to ask.
            if not has_run_backward:
                raise
    return seen


def _list_roots(result: Any, *, whole: bool) -> list[Any]:
    """Return the tensors of a result that are differentiated: all, or the first one, which must be one number."""
    tensors = list(list_result_tensors(result))
    if whole:
        return tensors
    if not tensors or tensors[0].numel() != 1 or tensors[0].is_complex():
        got = f"{tensors[0].dtype} of shape {tuple(tensors[0].shape)}" if tensors else short_repr(result)
        raise InputError(f"watch differentiates a function whose (first) result is one real number; got {got}")
    return tensors[:1]


def _replace_tensors(value: Any, others: Mapping[int, Any]) -> Any:
    """Return nested arguments with some tensors replaced, by their identity."""
    if isinstance(value, Mapping):
        return {key: _replace_tensors(part, others) for key, part in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_replace_tensors(part, others) for part in value)
    return others.get(id(value), value)


def _send_ones_back(roots: Sequence[Any]) -> None:
    """Send a gradient of 1 back from tensors, without changing `.grad` of what the caller holds."""
    before = [(leaf, leaf.grad) for leaf in find_leaves(roots)]
    for leaf, _ in before:
        leaf.grad = None
    try:
        torch.autograd.backward(roots, [torch.ones_like(root) for root in roots])
    finally:
        for leaf, gradient in before:
            leaf.grad = gradient


def find_leaves(roots: Iterable[Any]) -> list[Any]:
    """Return the tensors at which the graph behind some tensors ends."""
    leaves = {id(root): root for root in roots if root.grad_fn is None}
    pending = [root.grad_fn for root in roots]
    seen = set[Any]()
    while pending:
        node = pending.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            leaves[id(node.variable)] = node.variable
        pending.extend(before for before, _ in node.next_functions)
    return list(leaves.values())


def is_named_input(tensor: ObservedTensor) -> bool:
    """Return whether a tensor from outside is an input of the circuit of a watched program."""
    return tensor.kind == "parameter" or tensor.requires_grad or bool(tensor.kind == "input" and tensor.name)


def find_outputs(run: ObservedRun) -> dict[str, int]:
    """Return what was differentiated in a run, or the last floating result if nothing was."""
    roots = list(dict.fromkeys(run.roots))
    if len(roots) > 1:
        return {f"loss[{k}]": number for k, number in enumerate(roots)}
    if roots:
        return {"loss": roots[0]}
    results = [number for op in run.ops if op.phase == "forward" for number in op.outputs]
    floating = [number for number in results if name_dtype(run.tensors[number].dtype).kind in "fc"]
    if not floating:
        raise InputError("nothing was computed that has a gradient")
    return {"output": floating[-1]}


def make_circuit(circuit: CircuitGraph, point: dict[str, Any], weights: Collection[str]) -> Any:
    """Return a circuit as users get it, which knows the values of its inputs."""
    return CIRCUIT_MAKERS[0](circuit.columns, point, weights)


def import_function(
    function: Callable[..., Any], args: Sequence[Any], keywords: Mapping[str, Any], *, opaque: bool = False
) -> tuple[CircuitGraph, dict[str, Any], list[str]]:
    """Run a function or module of PyTorch once; return its circuit, the values of its inputs, and which are weights."""
    if not callable(function):
        raise InputError(f"wg.from_torch takes a module or function, then its arguments; got {short_repr(function)}")
    try:
        seen = _watch_call(function, args, keywords, differentiate=True)
    except RuntimeError:
        # PyTorch refuses gradients of some arguments, and writes in place to what has one.
        seen = _watch_call(function, args, keywords, differentiate=False)
    except (TypeError, AttributeError) as error:
        if len(args) == 1 and isinstance(args[0], tuple):
            error.add_note(
                "wg.from_torch takes the arguments one by one: wg.from_torch(f, x), not wg.from_torch(f, (x,))"
            )
        raise
    name = getattr(function, "__name__", type(function).__name__)
    return build_circuit(
        seen.run,
        seen.results,
        lambda tensor: tensor.index in seen.inputs or tensor.kind == "parameter" or tensor.requires_grad,
        name=name if name.isidentifier() else "f",
        first=seen.inputs,
        escaped=seen.escaped,
        opaque=opaque,
    )


class WatchedCall(NamedTuple):
    """A call that was watched: its run, and the numbers of the tensors that it got and returned."""

    run: ObservedRun
    inputs: list[int]
    results: dict[str, int]
    escaped: list[int]
    """The tensors whose numbers left PyTorch."""


class EscapeMode(TorchFunctionMode):  # type: ignore[misc]
    """Notes the tensors that are given to NumPy or made Python lists, which is no op."""

    def __init__(self, watch: TorchWatch) -> None:
        super().__init__()
        self.watch = watch
        self.escaped: list[int] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__name__", "") in ("numpy", "__array__", "tolist", "__dlpack__"):
            self.escaped.append(self.watch.find_tensor(args[0]).index)
        return func(*args, **(kwargs or {}))


def _watch_call(
    function: Callable[..., Any], args: Sequence[Any], keywords: Mapping[str, Any], *, differentiate: bool
) -> WatchedCall:
    """Run a function on copies of its arguments, and record what it does."""
    inputs: dict[str, Any] = {}
    copied, named = _copy_arguments(function, args, keywords, inputs, differentiate)
    watch = TorchWatch(function if isinstance(function, torch.nn.Module) else None, keep="all")
    watch.name_modules(find_modules(function))
    watch.splits_steps = False
    # The circuit begins at the arguments, also where the function writes to them past autograd.
    watch.ends_at_leaves = False
    escapes = EscapeMode(watch)
    with torch.enable_grad(), watch:
        watch.name_inputs(inputs)
        numbers = [watch.find_tensor(tensor).index for tensor in inputs.values()]
        with escapes:
            result = function(*copied, **named)
        results = [watch.find_tensor(tensor).index for tensor in list_result_tensors(result)]
    if not results:
        raise InputError(f"the function returned no tensor to make a circuit of; got {type(result).__name__}")
    names = _name_results(result, len(results))
    run = watch.steps[-1]
    return WatchedCall(run, numbers, dict(zip(names, results, strict=True)), escapes.escaped)


def find_modules(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the modules that a function uses from outside, by the names of the variables that hold them."""
    code = getattr(function, "__code__", None)
    if code is None:
        return {}
    outside = inspect.getclosurevars(function)
    variables = {**outside.globals, **outside.nonlocals}
    return {name: value for name, value in variables.items() if isinstance(value, torch.nn.Module)}


def _name_results(result: Any, count: int) -> list[str]:
    if isinstance(result, Mapping) and len(result) == count:
        return [write_name(f"output.{key}") for key in result]
    return ["output"] if count == 1 else [f"output[{k}]" for k in range(count)]


def _copy_arguments(
    function: Callable[..., Any],
    args: Sequence[Any],
    keywords: Mapping[str, Any],
    inputs: dict[str, Any],
    differentiate: bool,
) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments with copies of their tensors; those that can be differentiated are noted by name."""
    target = function.forward if isinstance(function, torch.nn.Module) else function

    def copy_argument(name: str, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            copy = value.detach().clone()
            if copy.is_floating_point() or copy.is_complex():
                inputs[name] = copy.requires_grad_(differentiate)
            return copy
        if isinstance(value, Mapping):
            return {key: copy_argument(f"{name}_{key}", part) for key, part in value.items()}
        if type(value) in (list, tuple):
            return type(value)(copy_argument(f"{name}_{k}", part) for k, part in enumerate(value))
        return value

    try:
        bound = inspect.signature(target).bind(*args, **keywords)
    except (TypeError, ValueError):
        # A function without a readable signature, or one that refuses these arguments itself.
        bound = inspect.signature(lambda *x, **named: None).bind(*args, **keywords)
    for name, value in bound.arguments.items():
        bound.arguments[name] = copy_argument(name, value)
    return list(bound.args), dict(bound.kwargs)
