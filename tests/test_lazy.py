"""Lazy loading: by one helper, and nothing else imports late."""

from __future__ import annotations

import ast
import gc
import importlib
import pickle
import re
import subprocess
import sys
import typing
import weakref
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import FrozenInstanceError, dataclass
from functools import cached_property
from pathlib import Path

import pytest

from wiregrad.lazy import (
    NamedTuple,
    import_later,
    import_module,
    load_module_lazily,
    load_names_lazily,
    pause_collection,
    record,
)

from .support.limits import PATIENCE
from .support.threads import run_in_threads

PACKAGE = Path(__file__).parent.parent / "src" / "wiregrad"
SIGNS = re.compile(r"^[ \t]+(?:import|from)\s+wiregrad|import_module|__import__|__getattr__", re.MULTILINE)
"""What is in the text of every module that imports inside a function or on demand."""
MODULES = sorted(
    path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py") if SIGNS.search(path.read_text("utf-8"))
)


@pytest.fixture
def late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A module that is not loaded yet."""
    (tmp_path / "late_module.py").write_text("number = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    yield "late_module"
    sys.modules.pop("late_module", None)


def test_a_lazy_module_is_imported_when_an_attribute_is_read(late: str) -> None:
    module = load_module_lazily(late)
    loaded_before = late in sys.modules

    assert not loaded_before
    assert module.number == 1
    assert late in sys.modules


def test_what_is_set_on_a_lazy_module_is_set_on_the_module(late: str) -> None:
    module = load_module_lazily(late)
    module.number = 2

    assert importlib.import_module(late).number == 2
    assert "number" in dir(module)


def test_what_is_patched_on_a_lazy_module_is_restored(late: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = load_module_lazily(late)
    with monkeypatch.context() as patch:
        patch.setattr(module, "number", 5)
        patched = importlib.import_module(late).number

    assert (patched, importlib.import_module(late).number, vars(module)["number"]) == (5, 1, 1)


def test_an_attribute_that_a_lazy_module_lacks_is_an_attribute_error(late: str) -> None:
    with pytest.raises(AttributeError, match="nosuch"):
        _ = load_module_lazily(late).nosuch


def test_names_are_loaded_once_and_other_names_are_asked_for_again(late: str) -> None:
    asked: list[str] = []
    find = load_names_lazily(late, {"number": late}, otherwise=asked.append)
    importlib.import_module(late)
    found = find("number")
    find("other")
    find("other")

    assert found == 1
    assert asked == ["other", "other"]
    with pytest.raises(AttributeError, match="_private"):
        find("_private")


def test_modules_are_imported_later_for_what_they_register(late: str) -> None:
    load = import_later(late)
    loaded_before = late in sys.modules
    load()

    assert not loaded_before
    assert late in sys.modules


class Ring:
    """An object that refers to itself, so that only the collector frees it."""

    def __init__(self) -> None:
        self.own = self


@pytest.fixture
def nothing_frozen() -> Iterator[None]:
    gc.unfreeze()
    gc.disable()
    yield
    gc.enable()
    gc.unfreeze()


@pytest.mark.usefixtures("nothing_frozen")
def test_objects_that_are_young_during_an_import_are_old_but_not_frozen_after_it(late: str) -> None:
    ring = weakref.ref(Ring())
    import_module(late)
    # Collections of Python 3.12 and later freeze objects that live for ever.
    frozen = gc.get_freeze_count()
    gc.collect(0)
    is_young = ring() is None
    gc.collect()

    assert not is_young
    assert ring() is None
    assert frozen == 0


@pytest.mark.usefixtures("nothing_frozen")
def test_what_a_program_froze_stays_frozen_after_an_import(late: str) -> None:
    gc.freeze()
    count = gc.get_freeze_count()
    import_module(late)

    # Other threads may drop single objects meanwhile.
    assert gc.get_freeze_count() > count // 2


@pytest.mark.parametrize("module", MODULES)
def test_wiregrad_is_imported_late_by_the_helper_alone(module: str) -> None:
    tree = ast.parse((PACKAGE / module).read_text(encoding="utf-8"))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    inside = [inner for function in functions for inner in ast.walk(function)]
    names = [alias.name for node in inside if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "" for node in inside if isinstance(node, ast.ImportFrom)]
    called = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    late_calls = [
        node
        for node in called
        if isinstance(node.func, ast.Name | ast.Attribute)
        and (node.func.id if isinstance(node.func, ast.Name) else node.func.attr) in ("import_module", "__import__")
        and not isinstance(node.args[0], ast.Constant)
    ]

    assert [name for name in names if name.partition(".")[0] == "wiregrad"] == []
    assert module == "lazy.py" or late_calls == []
    assert module == "lazy.py" or "__getattr__" not in {node.name for node in tree.body if node in functions}


@pytest.mark.parametrize("first_out", [0, 1])
@pytest.mark.parametrize("is_on", [True, False])
def test_the_collector_runs_again_when_the_last_of_two_pauses_ends(first_out: int, is_on: bool) -> None:
    was_on = gc.isenabled()
    (gc.enable if is_on else gc.disable)()
    try:
        pauses = [pause_collection(), pause_collection()]
        for pause in pauses:
            pause.__enter__()
        pauses[first_out].__exit__(None, None, None)
        between = gc.isenabled()
        pauses[1 - first_out].__exit__(None, None, None)

        assert (between, gc.isenabled()) == (False, is_on)
    finally:
        (gc.enable if was_on else gc.disable)()


FORK = """
import gc, os, threading
from wiregrad.lazy import pause_collection
entered, leave = threading.Event(), threading.Event()
def pause():
    with pause_collection():
        entered.set()
        leave.wait(60)
thread = threading.Thread(target=pause)
thread.start()
entered.wait(60)
child = os.fork()
if not child:
    os._exit(gc.isenabled())
leave.set()
thread.join(60)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), gc.isenabled())
"""


def test_a_forked_process_has_no_pauses_of_other_threads() -> None:
    done = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True, check=True, timeout=PATIENCE)

    assert done.stdout.split() == ["1", "True"]


def test_threads_that_pause_the_collector_leave_it_running() -> None:
    def pause_often(_: int) -> None:
        for _ in range(2000):
            with pause_collection():
                pass

    run_in_threads(pause_often, range(4), interval=1e-6)

    assert gc.isenabled()


class Quick(NamedTuple):
    """A place."""

    x: int
    y: float = 2.0
    name: str = "p"

    @property
    def length(self) -> int:
        return super().__len__()


class Plain(typing.NamedTuple):
    """A place."""

    x: int
    y: float = 2.0
    name: str = "p"

    @property
    def length(self) -> int:
        return tuple.__len__(self)


@record
class Box:
    """A box."""

    width: float
    height: float = 1.0

    @cached_property
    def area(self) -> float:
        return self.width * self.height


@record
class NamedBox(Box):
    """A box with a name."""

    name: str = "box"


@dataclass(frozen=True, eq=False)
class PlainBox:
    """A box."""

    width: float
    height: float = 1.0

    @cached_property
    def area(self) -> float:
        return self.width * self.height


def describe_result(call: Callable[[typing.Any], object], cls: type) -> str:
    """Return what a call with a class gives, or the error it raises, without the name of the class."""
    try:
        text = repr(call(cls))
    except (TypeError, ValueError, AttributeError) as error:
        text = f"{type(error).__name__}: {error}"
    return text.replace(cls.__name__, "Class")


def match_place(place: typing.Any, cls: typing.Any) -> object:
    match place:
        case cls(x, y, name="q"):
            return x, y
        case _:
            return None


@pytest.mark.parametrize(
    "call",
    [
        lambda cls: cls(1),
        lambda cls: cls(1, name="q"),
        lambda cls: cls(y=1, x=2),
        lambda cls: cls(),
        lambda cls: cls(1, 2.0, "p", 4),
        lambda cls: cls(1, size=3),
        lambda cls: cls(1, x=3),
        lambda cls: cls._make([1, 2, 3]),
        lambda cls: cls._make([1]),
        lambda cls: cls(1)._replace(y=7),
        lambda cls: cls(1)._replace(size=7),
        lambda cls: cls(1)._asdict(),
        lambda cls: (cls(1) == (1, 2.0, "p"), hash(cls(1)) == hash((1, 2.0, "p")), [*cls(1)], cls(1)[0]),
        lambda cls: pickle.loads(pickle.dumps(cls(1, 3.0))),
        lambda cls: copy(cls(1)),
        lambda cls: cls(1).length,
        lambda cls: match_place(cls(1, 2.0, "q"), cls),
        lambda cls: (cls._fields, cls._field_defaults, cls.__match_args__, cls.__doc__, type(cls)),
        lambda cls: setattr(cls(1), "x", 2),
        lambda cls: setattr(cls(1), "size", 2),
        typing.get_type_hints,
    ],
)
def test_a_quick_named_tuple_is_used_as_that_of_typing(call: Callable[[typing.Any], object]) -> None:
    assert describe_result(call, Quick) == describe_result(call, Plain)


@pytest.mark.parametrize(
    "call",
    [
        lambda cls: cls(1.0),
        lambda cls: cls(1.0, height=2.0),
        lambda cls: cls(height=1.0, width=2.0),
        lambda cls: cls(),
        lambda cls: cls(1.0, 2.0, 3.0),
        lambda cls: cls(1.0, depth=3.0),
        lambda cls: (cls(1.0) == cls(1.0), len({cls(1.0), cls(1.0)})),
        lambda cls: pickle.loads(pickle.dumps(cls(1.0, 3.0))),
        lambda cls: copy(cls(1.0)),
        lambda cls: cls(2.0, 3.0).area,
        lambda cls: (cls.__match_args__, cls.__doc__, cls.height),
    ],
)
def test_a_record_is_used_as_a_frozen_data_class(call: Callable[[typing.Any], object]) -> None:
    assert describe_result(call, Box) == describe_result(call, PlainBox)


def test_a_record_has_the_fields_of_its_base_first() -> None:
    assert repr(NamedBox(2.0, 3.0, "b")) == "NamedBox(width=2.0, height=3.0, name='b')"
    assert NamedBox(2.0).area == 2.0


@pytest.mark.parametrize("change", [lambda box: setattr(box, "width", 3.0), lambda box: delattr(box, "width")])
def test_a_record_refuses_changes(change: Callable[[Box], object]) -> None:
    box = Box(2.0)
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'width' of Box"):
        change(box)

    assert box.width == 2.0


def test_a_default_before_a_field_without_one_is_refused() -> None:
    with pytest.raises(TypeError, match="a field of Wrong without a default follows one that has a default"):

        class Wrong(NamedTuple):  # type: ignore[misc]
            x: int = 1
            y: int  # type: ignore[misc]
