"""The cache of compiled code on disk: it saves time, and nothing in it can change an answer."""

from __future__ import annotations

import ctypes
import errno
import os
import random
import re
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import wiregrad
from wiregrad.backends.native import code_cache, jit, program_steps, tiers
from wiregrad.backends.native.code_cache import CodeCache, make_entry_name
from wiregrad.backends.native.llvm_writer import LlvmWriter, RealType, format_pointer
from wiregrad.errors import SettingError
from wiregrad.ir import parse_text

from ..support.limits import PATIENCE, WHOLE_RUN_PATIENCE
from ..support.random_circuits import random_circuit
from ..support.sampling import choose_count

NAME = make_entry_name("something")
CONTENT = bytes(range(256)) * 5


@pytest.fixture
def cache(tmp_path: Path) -> CodeCache:
    """Return a cache with one entry."""
    one = CodeCache(str(tmp_path / "cache"))
    one.store_entry(NAME, CONTENT)
    return one


def entry_file(cache: CodeCache) -> Path:
    return Path(cache.folder) / f"{NAME}.code"


def test_what_was_stored_is_loaded_by_another_process(cache: CodeCache) -> None:
    again = CodeCache(cache.folder)

    assert again.load_entry(NAME) == CONTENT
    assert again.load_entry(make_entry_name("something else")) is None
    assert again.problem == ""


def test_folder_and_files_are_private(cache: CodeCache) -> None:
    assert stat.S_IMODE(os.stat(cache.folder).st_mode) == 0o700
    assert stat.S_IMODE(entry_file(cache).stat().st_mode) == 0o600


@pytest.mark.parametrize("size", [0, 1, 15, 16, 47, 48, 49, len(CONTENT), 48 + len(CONTENT) - 1])
def test_a_truncated_file_counts_as_missing(cache: CodeCache, size: int) -> None:
    os.truncate(entry_file(cache), size)

    assert cache.load_entry(NAME) is None


@pytest.mark.parametrize("place", [0, 15, 16, 40, 47, 48, 500, 48 + len(CONTENT) - 1])
def test_a_file_with_one_changed_bit_counts_as_missing(cache: CodeCache, place: int) -> None:
    data = bytearray(entry_file(cache).read_bytes())
    data[place] ^= 1 << place % 8
    entry_file(cache).write_bytes(data)

    assert cache.load_entry(NAME) is None


def test_a_longer_file_counts_as_missing(cache: CodeCache) -> None:
    with entry_file(cache).open("ab") as stream:
        stream.write(b"\0")

    assert cache.load_entry(NAME) is None


def test_an_entry_under_another_name_counts_as_missing(cache: CodeCache) -> None:
    other = make_entry_name("something else")
    shutil.copy(entry_file(cache), Path(cache.folder) / f"{other}.code")

    assert cache.load_entry(other) is None


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_may_write_to_is_not_used(cache: CodeCache, mode: int) -> None:
    entry_file(cache).chmod(mode)

    assert cache.load_entry(NAME) is None


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o777, 0o1777])
def test_a_folder_that_others_may_write_to_is_not_used(cache: CodeCache, mode: int) -> None:
    Path(cache.folder).chmod(mode)
    before = sorted(os.listdir(cache.folder))

    assert cache.load_entry(NAME) is None
    assert "others may write" in cache.problem
    cache.store_entry(make_entry_name("new"), CONTENT)
    assert sorted(os.listdir(cache.folder)) == before


def test_a_folder_of_another_user_is_not_used(cache: CodeCache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)

    assert cache.load_entry(NAME) is None
    assert "another user" in cache.problem


def test_a_file_of_another_user_is_not_used(cache: CodeCache, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.fstat

    def disown_files(file: int) -> os.stat_result:
        facts = real(file)
        row = list(facts)
        row[stat.ST_UID] += stat.S_ISREG(facts.st_mode)
        return os.stat_result(row)

    monkeypatch.setattr(os, "fstat", disown_files)

    assert cache.load_entry(NAME) is None


def test_symbolic_links_are_not_followed(cache: CodeCache, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    entry_file(cache).rename(elsewhere)
    entry_file(cache).symlink_to(elsewhere)
    link = tmp_path / "link"
    link.symlink_to(cache.folder)

    assert cache.load_entry(NAME) is None
    assert CodeCache(str(link)).load_entry(NAME) is None
    cache.store_entry(NAME, b"new")
    assert cache.load_entry(NAME) == b"new"
    assert elsewhere.read_bytes().endswith(CONTENT)


def test_pipes_and_folders_count_as_missing(cache: CodeCache) -> None:
    entry_file(cache).unlink()
    os.mkfifo(entry_file(cache), 0o600)

    assert cache.load_entry(NAME) is None
    entry_file(cache).unlink()
    entry_file(cache).mkdir(0o700)
    assert cache.load_entry(NAME) is None


@pytest.mark.parametrize("call", ["open", "replace", "fdopen"])
def test_a_full_or_read_only_disk_is_no_error_and_leaves_nothing(
    cache: CodeCache, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    real = getattr(os, call)

    def fail(*arguments: object, **options: object) -> object:
        if call == "open" and not (isinstance(arguments[1], int) and arguments[1] & os.O_CREAT):
            return real(*arguments, **options)
        if call == "fdopen":
            os.close(arguments[0])  # type: ignore[arg-type]
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, call, fail)
    cache.store_entry(make_entry_name("new"), CONTENT)
    monkeypatch.undo()

    assert "No space left" in cache.problem
    assert os.listdir(cache.folder) == [entry_file(cache).name]


def test_an_interrupted_write_leaves_nothing(cache: CodeCache, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        cache.store_entry(make_entry_name("new"), CONTENT)

    assert os.listdir(cache.folder) == [entry_file(cache).name]


def test_a_folder_that_cannot_be_made_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cache = CodeCache(str(tmp_path / "file" / "cache"))
    cache.store_entry(NAME, CONTENT)

    assert cache.load_entry(NAME) is None
    assert "Not a directory" in cache.problem


def test_the_oldest_entries_go_when_there_are_too_many_bytes(cache: CodeCache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code_cache, "MAX_FOLDER_BYTES", 20_000)
    monkeypatch.setattr(code_cache, "STORES_PER_CLEANING", 1)
    names = [make_entry_name("entry", str(k)) for k in range(40)]
    for age, name in enumerate(names):
        cache.store_entry(name, CONTENT)
        os.utime(Path(cache.folder) / f"{name}.code", (1000.0 + age, 1000.0 + age))
    held = [name for name in names if cache.load_entry(name) is not None]

    assert cache.measure_contents().size <= 20_000
    assert held == names[-len(held) :]
    assert 5 < len(held) < 20


def test_only_forgotten_unfinished_files_are_removed(cache: CodeCache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code_cache, "STORES_PER_CLEANING", 1)
    folder = Path(cache.folder)
    for name in ("forgotten.part", "fresh.part", "notes.txt"):
        (folder / name).write_text("x")
    long_ago = time.time() - 2 * code_cache.UNFINISHED_SECONDS
    os.utime(folder / "forgotten.part", (long_ago, long_ago))
    os.utime(folder / "notes.txt", (long_ago, long_ago))
    cache.store_entry(make_entry_name("new"), b"")

    assert sorted(path.name for path in folder.iterdir() if path.suffix != ".code") == ["fresh.part", "notes.txt"]


def test_clearing_removes_entries_and_nothing_else(cache: CodeCache) -> None:
    (Path(cache.folder) / "notes.txt").write_text("x")

    assert cache.clear_entries() == (1, len(CONTENT) + 48)
    assert os.listdir(cache.folder) == ["notes.txt"]
    assert cache.measure_contents() == (0, 0)


def test_an_entry_in_use_stays_young(cache: CodeCache) -> None:
    os.utime(entry_file(cache), (1000.0, 1000.0))
    cache.load_entry(NAME)

    assert time.time() - entry_file(cache).stat().st_mtime < 3600


def test_the_environment_chooses_the_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def folder(**variables: str) -> str | None:
        for name in ("WIREGRAD_CACHE", "XDG_CACHE_HOME"):
            monkeypatch.delenv(name, raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        code_cache._open_cache.cache_clear()
        cache = code_cache.open_cache()
        return None if cache is None else cache.folder

    home = str(tmp_path)
    usual = "Library/Caches" if sys.platform == "darwin" else ".cache"

    assert folder(WIREGRAD_CACHE="0") is None
    assert folder(WIREGRAD_CACHE="/a/folder") == "/a/folder"
    assert folder(XDG_CACHE_HOME="/xdg", HOME=home) == "/xdg/wiregrad"
    assert folder(XDG_CACHE_HOME="xdg", HOME=home) == f"{home}/{usual}/wiregrad"
    assert folder(WIREGRAD_CACHE="1", HOME=home) == f"{home}/{usual}/wiregrad"
    with pytest.raises(SettingError, match=r"0, 1 or the absolute path of a folder; got 'off'"):
        folder(WIREGRAD_CACHE="off")
    code_cache._open_cache.cache_clear()


@pytest.fixture
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Use a cache of this test alone."""
    # What is known about the processor is stored once in a process.
    jit.processor_name()
    monkeypatch.setenv("WIREGRAD_CACHE", str(tmp_path / "own"))
    return tmp_path / "own"


def write_call(address: int) -> str:
    w = LlvmWriter()
    w.begin_function("double @f(double %x)")
    w.end_function(w.call("double", format_pointer(address), w.name_value("%x", "double")))
    return w.format_module()


def test_code_with_an_address_that_has_no_name_is_not_stored(own_folder: Path) -> None:
    unnamed = jit.MachineCode(64).address
    functions = jit.JitFunctions(write_call(unnamed))

    assert functions.identity == ""
    assert not own_folder.exists() or not any(own_folder.iterdir())


def test_code_that_calls_a_named_function_runs_from_the_cache(own_folder: Path) -> None:
    text = write_call(jit.find_math_address("exp", "double"))
    made, loaded = jit.JitFunctions(text), jit.JitFunctions(text)
    call = [ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(one.find_address("f")) for one in (made, loaded)]

    assert len(list(own_folder.glob("*.code"))) == 1
    assert call[0](1.0) == call[1](1.0) == pytest.approx(np.e)
    assert "exp" not in jit.make_portable(text).text.replace("math.exp", "")  # type: ignore[union-attr]


def test_names_of_addresses_replace_every_address() -> None:
    text = write_call(jit.find_math_address("tanh", "double"))
    portable = jit.make_portable(text)

    assert portable is not None
    assert not re.search(r"inttoptr", portable.text)
    assert portable.symbols == {"math.tanh": jit.find_math_address("tanh", "double")}


OWN_TEXTS = [program_steps.write_planner, program_steps.write_register_loops]


@pytest.mark.parametrize("write", OWN_TEXTS)
def test_own_texts_contain_no_addresses(write: Callable[[], str]) -> None:
    portable = jit.make_portable(write())

    assert portable is not None
    assert portable.symbols == {}
    assert portable.text.strip() == write().strip()


@pytest.mark.parametrize("write", OWN_TEXTS)
def test_own_texts_are_written_by_modules_whose_text_is_in_the_name_of_entries(write: Callable[[], str]) -> None:
    """Code of another room could change, and the entry with the old code would still be found."""
    package = os.path.dirname(wiregrad.__file__)
    files = set[str]()
    sys.setprofile(lambda frame, event, _: files.add(frame.f_code.co_filename) if event == "call" else None)
    try:
        write()
    finally:
        sys.setprofile(None)

    assert {file for file in files if file.startswith(package)} <= {*code_cache.list_writing_modules()}


def test_own_text_is_written_only_if_its_code_is_not_stored(own_folder: Path) -> None:
    written = list[str]()

    def write_square() -> str:
        written.append("square")
        w = LlvmWriter()
        w.begin_function("double @f(double %x)")
        x = w.name_value("%x", "double")
        w.end_function(x * x)
        return w.format_module()

    made, loaded = (jit.JitFunctions(jit.OwnText("square", write_square)) for _ in range(2))
    other = jit.JitFunctions(jit.OwnText("another square", write_square))
    call = [ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(one.find_address("f")) for one in (made, loaded, other)]

    assert [one(3.0) for one in call] == [9.0, 9.0, 9.0]
    assert written == ["square", "square"]
    assert len(list(own_folder.glob("*.code"))) == 2


@pytest.mark.parametrize("module", ["program_steps.py", "llvm_writer.py", "step_kinds.py", "another.py"])
def test_entries_of_other_versions_of_a_module_are_not_found(
    module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "native"
    shutil.copytree(os.path.dirname(code_cache.__file__), copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(code_cache, "__file__", str(copy / "code_cache.py"))
    before = code_cache.identify_room.__wrapped__()
    with open(copy / module, "a") as file:
        file.write("# changed\n")

    assert before == code_cache.identify_room()
    assert code_cache.identify_room.__wrapped__() != before


@pytest.mark.parametrize("seed", range(choose_count(2, 5)))
@pytest.mark.parametrize("real", [RealType("double"), RealType("float"), RealType("double", 4)])
def test_saved_stencils_are_those_that_were_compiled(own_folder: Path, seed: int, real: RealType) -> None:
    circuit = random_circuit(np.random.default_rng(seed), nodes=40)
    keys = tiers.build_program(circuit, 0).stream.keys
    compiled = tiers.StencilLibrary(real).get_stencils(keys)
    library = tiers.StencilLibrary(real)
    before = own_folder.stat().st_mtime_ns
    saved = library.get_stencils(keys)

    assert [(one.code, one.holes, one.constants) for one in saved] == [
        (one.code, one.holes, one.constants) for one in compiled
    ]
    assert own_folder.stat().st_mtime_ns == before


def test_a_few_new_stencils_are_saved_when_the_process_ends(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = RealType("double")
    circuits = [random_circuit(np.random.default_rng(seed), nodes=40) for seed in range(5)]
    many = [key for circuit in circuits for key in tiers.build_program(circuit, 0).stream.keys]
    others = tiers.build_program(parse_text("input x\ny = arctanh x\noutput y"), 0).stream.keys
    keys = [key for key in others if key not in many][:1]
    # The library of this process may have saved some of them.
    for path in own_folder.glob("*.code"):
        path.unlink()
    library = tiers.StencilLibrary(real)
    library.get_stencils(many)
    before = [path.stat().st_mtime_ns for path in own_folder.glob("*.code")]
    stencils = library.get_stencils(keys)
    between = [path.stat().st_mtime_ns for path in own_folder.glob("*.code")]
    library.save_stencils()
    monkeypatch.setattr(tiers.StencilLibrary, "_compile_stencils", None)

    assert len(set(many)) > tiers.SAVED_SHARE
    assert before == between
    assert [one.code for one in tiers.StencilLibrary(real).get_stencils(keys)] == [one.code for one in stencils]


FRESH_PROCESS = """
import sys
import numpy as np
import wiregrad as wg

def branching(p, x):
    return wg.exp(-x * p[0]) * p[1] if x > 0.0 else p[1] * np.tanh(x)

def loss(w, x):
    return (np.tanh(x @ w) ** 2).mean() + np.log(np.exp(x).sum(axis=1)).mean()

rows = []
circuit = wg.circuit("o = tanh(x1*w1 + x2*w2 + b) ** 2 / (1 + exp(-x1))")
point = [2.0, -3.0, 0.5, 1.0, 6.88]
for dtype in ("float64", "float32"):
    fast = circuit.compile(dtype=dtype)
    rows += [fast.value_and_grad(point), fast.batch_value_and_grad([point, point[::-1]])]
    assert fast.info.tier == "stencils", fast.info
compiled = wg.compile(branching)
rows += [compiled.value_and_grad([0.5, 2.0], x) for x in (1.5, -1.5, 0.25)]
w = np.linspace(-1.0, 1.0, 12).reshape(4, 3)
rows.append(wg.compile(loss).value_and_grad(w, np.linspace(0.0, 2.0, 20).reshape(5, 4)))

def flatten(value):
    if isinstance(value, (list, tuple)):
        return [number for item in value for number in flatten(item)]
    return np.asarray(value, float).ravel().tolist()

print([number.hex() for number in flatten(rows)])
print("llvmlite" in sys.modules)
"""


def run_fresh_process(folder: Path | str, program: str = FRESH_PROCESS) -> list[str]:
    """Run a program in a new process with a cache folder; return the lines that it prints."""
    environment = os.environ | {"WIREGRAD_CACHE": str(folder)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """Return a cache that a fresh process has filled, and the lines that the process printed."""
    folder = tmp_path_factory.mktemp("filled")
    return folder, run_fresh_process(folder)


def test_a_fresh_process_with_a_warm_cache_compiles_nothing_and_gives_the_same_bits(
    filled: tuple[Path, list[str]],
) -> None:
    folder, cold = filled
    without, _ = run_fresh_process("0")
    warm = run_fresh_process(folder)

    assert cold == [without, "True"]
    assert warm == [without, "False"]


def flip_a_bit(data: bytes, rng: random.Random) -> bytes:
    place = rng.randrange(len(data))
    return data[:place] + bytes([data[place] ^ 1 << rng.randrange(8)]) + data[place + 1 :]


DAMAGES: list[Callable[[bytes, random.Random], bytes]] = [
    flip_a_bit,
    lambda data, rng: data[: rng.randrange(len(data))],
    lambda _data, _rng: b"",
    lambda data, rng: rng.randbytes(len(data)),
]


def test_damaged_files_are_replaced_and_change_no_answer(filled: tuple[Path, list[str]], tmp_path: Path) -> None:
    source, cold = filled
    folder = tmp_path / "damaged"
    shutil.copytree(source, folder)
    rng = random.Random(0)
    for number, file in enumerate(sorted(folder.iterdir())):
        file.write_bytes(DAMAGES[number % len(DAMAGES)](file.read_bytes(), rng))

    assert run_fresh_process(folder) == cold
    assert run_fresh_process(folder) == [cold[0], "False"]


CROWD = """
import os, random, signal, sys
import numpy as np
from tests.support.limits import WHOLE_RUN_PATIENCE
from tests.support.random_circuits import random_circuit
from wiregrad.backends.native import code_cache, jit

folder, count = sys.argv[1], int(sys.argv[2])
circuits = [random_circuit(np.random.default_rng(seed), nodes=12) for seed in range(12)]
points = [np.linspace(0.3, 1.7, len(circuit.inputs)) for circuit in circuits]

def compute(cache, chosen):
    os.environ["WIREGRAD_CACHE"] = cache
    results = [(circuits[k].compile().value_and_grad(points[k])) for k in chosen]
    return [np.array([value, *grad]).tobytes() for value, grad in results]

def fork(work):
    child = os.fork()
    if child == 0:
        code = 9
        try:
            code = work()
        finally:
            os._exit(code)
    return child

# The parent compiles nothing, so that every child is like a new process. It loads LLVM, whose memory they share.
jit.load_llvm()
reading, writing = os.pipe()

def tell_right_answers():
    with os.fdopen(writing, "wb") as stream:
        for answer in compute("0", range(len(circuits))):
            stream.write(len(answer).to_bytes(8, "little") + answer)
    return 0

teller = fork(tell_right_answers)
os.close(writing)
with os.fdopen(reading, "rb") as stream:
    right = [stream.read(int.from_bytes(stream.read(8), "little")) for _ in circuits]
assert os.waitpid(teller, 0)[1] == 0

waiting, starting = os.pipe()

def check_answers(seed):
    os.close(starting)
    os.read(waiting, 1)
    rng = random.Random(seed)
    # The signal kills the process wherever it is, after some processor time of its own; nobody outlives the test.
    if seed % 2:
        signal.setitimer(signal.ITIMER_PROF, 0.001 + rng.random() ** 2)
    signal.alarm(int(WHOLE_RUN_PATIENCE))
    if seed % 50 == 49:
        code_cache.CodeCache(folder).clear_entries()
    chosen = rng.sample(range(len(circuits)), 3)
    return 0 if compute(folder, chosen) == [right[k] for k in chosen] else 3

for seed in range(count):
    fork(lambda: check_answers(seed))
# Reading ends when nobody can write any more, so all of them begin now.
os.close(starting)
codes = [os.waitstatus_to_exitcode(os.wait()[1]) for _ in range(count)]
killed = -int(signal.SIGPROF)
print(codes.count(0), codes.count(killed), sum(code not in (0, killed) for code in codes))
"""


def run_crowd(folder: Path, count: int) -> None:
    """Start processes over one cache folder at the same time, and kill half; no answer and no file may be wrong."""
    arguments = [sys.executable, "-c", CROWD, str(folder), str(count)]
    done = subprocess.run(
        arguments,
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
        timeout=WHOLE_RUN_PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    right, killed, wrong = map(int, done.stdout.split())
    cache = CodeCache(str(folder))
    entries = [path.name.removesuffix(".code") for path in folder.glob("*.code")]

    assert wrong == 0
    assert right + killed == count
    assert right >= count // 2
    assert entries
    assert [name for name in entries if cache.load_entry(name) is None] == []


def test_processes_that_share_a_folder_and_are_killed_give_no_wrong_answer(tmp_path: Path) -> None:
    run_crowd(tmp_path / "cache", 6)


@pytest.mark.full
def test_500_processes_that_share_a_folder_and_are_killed_give_no_wrong_answer(tmp_path: Path) -> None:
    run_crowd(tmp_path / "cache", 500)
