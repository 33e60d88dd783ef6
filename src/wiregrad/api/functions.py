"""The functions that come from the op table, by name: `functions.softmax` is `wiregrad.softmax`.

What they are called, what they take and what they return is written in the stub beside this module, for type checkers
and editors; `tools/write_stubs.py` writes it from the table.
"""

from wiregrad.api.values import find_function
from wiregrad.lazy import load_names_lazily

__getattr__ = load_names_lazily(__name__, {}, otherwise=find_function)
