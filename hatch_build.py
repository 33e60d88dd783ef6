"""Build the C recorder, `wiregrad._recorder`, when the package is built or installed, and describe the package.

It is an optional part: where there is no compiler, or compiling fails, the package is made without it, and the Python
recorder serves. WIREGRAD_BUILD_STRICT=1 makes a failure an error, and warnings of the compiler too.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface
from setuptools import Distribution, Extension
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).parent
SOURCES = ROOT / "recorder"
STRICT_VARIABLE = "WIREGRAD_BUILD_STRICT"
SAME_BITS = ["-std=c11", "-ffp-contract=off", "-fno-math-errno", "-fno-builtin-sin", "-fno-builtin-cos"]
"""Options under which C rounds as Python does: no fused products, and no sine and cosine computed together.

Beside them, `-g0` leaves out what a debugger would read, which is three quarters of the file.
"""
WARNINGS = ["-Wall", "-Wextra", "-Wno-unused-parameter", "-Wno-missing-field-initializers", "-Werror"]


def fingerprint_sources() -> str:
    """Return a hash of the C sources, which the extension carries, so that a test notices a stale one."""
    digest = hashlib.sha256()
    for path in sorted(SOURCES.glob("*.[ch]")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def compile_recorder(target: Path, extra: tuple[str, ...] = ()) -> Path:
    """Compile the extension into a folder; returns its path."""
    is_msvc = sys.platform == "win32" and "gcc" not in sys.version.lower()
    strict = WARNINGS if os.environ.get(STRICT_VARIABLE) == "1" and not is_msvc else []
    extension = Extension(
        "_recorder",
        [os.path.relpath(SOURCES / "recorder.c")],
        include_dirs=[os.path.relpath(SOURCES)],
        define_macros=[("RECORDER_FINGERPRINT", f'"{fingerprint_sources()}"')],
        extra_compile_args=["/O2", "/fp:precise"] if is_msvc else [*SAME_BITS, "-g0", *strict, *extra],
        extra_link_args=list(extra),
        libraries=[] if sys.platform == "win32" else ["m"],
    )
    command = build_ext(Distribution({"name": "wiregrad", "ext_modules": [extension]}))
    command.build_lib = str(target)
    command.force = True
    with tempfile.TemporaryDirectory() as folder:
        command.build_temp = folder
        command.ensure_finalized()
        command.run()
    return target / f"_recorder{sysconfig.get_config_var('EXT_SUFFIX')}"


class RecorderHook(BuildHookInterface[Any]):
    """Adds the extension to a wheel; for an editable installation it is put beside the package's modules."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile the extension, if that is possible."""
        if self.target_name != "wheel":
            return
        self.folder = tempfile.TemporaryDirectory()
        try:
            built = compile_recorder(ROOT / "src" / "wiregrad" if version == "editable" else Path(self.folder.name))
        except Exception as error:
            if os.environ.get(STRICT_VARIABLE) == "1":
                raise
            self.app.display_warning(f"the C recorder was not built, so the Python recorder serves: {error}")
            return
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        if version != "editable":
            build_data["force_include"][str(built)] = f"wiregrad/{built.name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what was compiled for a wheel."""
        if self.target_name == "wheel":
            self.folder.cleanup()


def describe_package(readme: str) -> str:
    """Return the README as a package index shows it: without pictures and links into the repository.

    >>> describe_package("![a](docs/a.svg)\\n\\n[The tour](docs/tour.md), [NumPy](https://numpy.org)")
    'The tour, [NumPy](https://numpy.org)'
    """
    without_pictures = re.sub(r"!\[[^\]]*\]\((?!https:)[^)]*\)\n*", "", readme)
    return re.sub(r"\[([^\]]+)\]\((?!https:)[^)]*\)", r"\1", without_pictures)


class DescriptionHook(MetadataHookInterface):
    """Gives the package its description."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Take the description from the README."""
        text = describe_package((ROOT / "README.md").read_text(encoding="utf-8"))
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
