"""The methods and operators of values, as type checkers and editors see them: they read the stub beside this module.

`dispatch` and `scalar` set the methods of `Value` from the op table; `tools/write_stubs.py` writes the stub from it.
"""

from typing import Any

from wiregrad.ir.op import OperatorMethods

Operand = Any
Index = Any
ValueMethods = OperatorMethods
