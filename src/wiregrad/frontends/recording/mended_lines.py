"""The user's line that cannot be recorded, and what to write instead.

Asked for by errors alone, so nothing here needs to be fast. The expression is found by the position of the instruction
that is running; the line that made an array, by reading the function's source above it.
"""

from __future__ import annotations

import ast
import dis
import linecache
import re
from itertools import islice
from types import FrameType

from wiregrad.errors import find_user_frame

PLAIN_MAKER = (
    "{array} is a plain array, made by `{maker}` (line {line}), and cannot hold a recorded value: write `{mended}`"
)
PLAIN_ARRAY = (
    "{array} is a plain array and cannot hold a recorded value: write `{array} = np.array({array}, like={value})` above"
)
IN_A_LIST = ", or collect the values in a list and join them with np.stack"
MADE_PATTERN = r"^\s*{array}\s*=\s*(?P<maker>[\w.]+\(.*\))\s*(#.*)?$"


def find_running_text(frame: FrameType) -> tuple[str, str]:
    """Return the name of the instruction that a frame is at, and the source text of its expression; empty if unknown.

    >>> import sys
    >>> find_running_text(sys._getframe())[1]
    'find_running_text(sys._getframe())'
    """
    code = frame.f_code
    place = next(islice(code.co_positions(), frame.f_lasti // 2, None), (None,) * 4)
    opname = dis.opname[code.co_code[frame.f_lasti]]
    first, last, start, stop = place
    if first is None or first != last:
        return opname, ""
    line = linecache.getline(code.co_filename, first, frame.f_globals)
    return opname, line.encode()[start:stop].decode(errors="replace")


def advise_on_store() -> str:
    """Return what to write instead of assigning to an element of a plain array; empty if that is not what happens."""
    frame = find_user_frame()
    if frame is None:
        return ""
    opname, text = find_running_text(frame)
    if opname != "STORE_SUBSCR":
        return ""
    array = name_array(text)
    value = _name_of_value(frame)
    maker = _find_maker(frame, array)
    if maker is None:
        return PLAIN_ARRAY.format(array=array, value=value) + IN_A_LIST
    line, made = maker
    mended = f"{array} = {made[:-1]}, like={value})"
    return PLAIN_MAKER.format(array=array, maker=f"{array} = {made}", line=line, mended=mended) + IN_A_LIST


def _name_of_value(frame: FrameType) -> str:
    """Return the name of a variable that holds a recorded value; "x" if there is none."""
    names = frame.f_code.co_varnames
    variables = frame.f_locals
    return next((name for name in names if hasattr(variables.get(name), "__wiregrad_apply__")), "x")


def _find_maker(frame: FrameType, array: str) -> tuple[int, str] | None:
    """Return the nearest line above that assigned a call to a variable, and the call; None if there is none."""
    if not array.isidentifier():
        return None
    pattern = re.compile(MADE_PATTERN.format(array=array))
    code = frame.f_code
    for line in range(frame.f_lineno - 1, code.co_firstlineno - 1, -1):
        match = pattern.match(linecache.getline(code.co_filename, line, frame.f_globals))
        if match is not None:
            return line, match["maker"]
    return None


def advise_on_update() -> str:
    """Return what to write instead of `acc += v` or `out=acc` on a plain array; empty if the line is not of that form.

    The text follows a message, and begins with a colon.
    """
    frame = find_user_frame()
    text = "" if frame is None else find_running_text(frame)[1]
    mended = mend_update(text)
    return "" if mended is None else f": instead of `{text}` write `{mended}`"


def mend_update(text: str) -> str | None:
    """Return an update of an array as an assignment; None if the text is no such statement.

    >>> mend_update("n[1:]*=a+b")
    'n[1:] = n[1:] * (a + b)'
    >>> mend_update("np.add(a, b, out=total)")
    'total = np.add(a, b)'
    """
    statement = _parse_statement(text)
    if isinstance(statement, ast.AugAssign):
        target = ast.unparse(statement.target)
        operand = ast.parse(target, mode="eval").body
        return f"{target} = {ast.unparse(ast.BinOp(operand, statement.op, statement.value))}"
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call):
        return None
    targets = [ast.unparse(word.value) for word in call.keywords if word.arg == "out"]
    if not targets:
        return None
    call.keywords = [word for word in call.keywords if word.arg != "out"]
    return f"{targets[0]} = {ast.unparse(call)}"


def _parse_statement(text: str) -> ast.stmt | None:
    """Return a text as one statement; None if it is none."""
    try:
        statements = ast.parse(text).body
    except SyntaxError:
        return None
    return statements[0] if len(statements) == 1 else None


def name_array(text: str) -> str:
    """Return the array in the text of a subscript.

    >>> name_array("self.rows[k][i]")
    'self.rows[k]'
    """
    statement = _parse_statement(text)
    subscript = statement.value if isinstance(statement, ast.Expr) else None
    return ast.unparse(subscript.value) if isinstance(subscript, ast.Subscript) else "the array"


def advise_on_conversion() -> str:
    """Return what to write instead of a call that turns values into a plain array; the general advice if unknown."""
    frame = find_user_frame()
    text = "" if frame is None else find_running_text(frame)[1]
    match = re.fullmatch(r"(?P<module>\w+)\.(?P<name>array|asarray|asanyarray)(?P<arguments>\(.*\))", text)
    if match is None:
        return "join values with wg.array([...]) or np.stack([...])"
    return f"instead of `{text}` write `wg.array{match['arguments']}`, or `import wiregrad.numpy as {match['module']}`"
