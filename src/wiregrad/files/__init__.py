"""Circuit files on disk: saved, loaded, and replaced safely.

`circuit_file` reads and writes the safetensors form of a circuit, checks files from any source, and writes a file
completely or not at all. Other rooms may call `save`, `load` and `replace_file`, the JSON form (`write_json`,
`parse_json`, which `wiregrad.ir.json_form` defines), all loaded at their first use, and
`circuit_file.read_file_bytes`, `circuit_file.encode_circuit_file` and `circuit_file.decode_circuit_file`.
"""

from typing import TYPE_CHECKING

from wiregrad.lazy import load_names_lazily

if TYPE_CHECKING:
    from wiregrad.files.circuit_file import load, replace_file, save
    from wiregrad.ir.json_form import parse_json, write_json

__all__ = ["load", "parse_json", "replace_file", "save", "write_json"]

if not TYPE_CHECKING:
    __getattr__ = load_names_lazily(
        __name__,
        {
            "load": "wiregrad.files.circuit_file",
            "parse_json": "wiregrad.ir.json_form",
            "replace_file": "wiregrad.files.circuit_file",
            "save": "wiregrad.files.circuit_file",
            "write_json": "wiregrad.ir.json_form",
        },
    )
