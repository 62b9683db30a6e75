"""Extension modules, their directives and flags; everything else is in pyproject.toml."""

import os
import sys
from pathlib import Path

from setuptools import Extension, setup

# Editable installs are checked builds (bounds, overflow of C integers, assertions); wheels are not. The C files of the
# two kinds never share a folder, because timestamps alone would not notice that the directives changed.
checked = "editable_wheel" in sys.argv or os.environ.get("PACKING_CHECKED") == "1"
directives = {
    "language_level": 3,
    "boundscheck": checked,
    "wraparound": False,
    "initializedcheck": checked,
    "cdivision": True,
    "embedsignature": True,
    "freethreading_compatible": True,
}
macros = [("Py_LIMITED_API", "0x030B0000")] + ([] if checked else [("CYTHON_WITHOUT_ASSERTIONS", "1")])
# -ffp-contract=off: a fused multiply-add on one machine and not on another would break "the same plan everywhere".
# Checked builds are for tests; -O1 compiles them faster.
compile_args = ["-O1" if checked else "-O3", "-ffp-contract=off", "-g0", "-std=c11"]
link_args = ["-Wl,--strip-all"] if sys.platform.startswith("linux") else []

extensions = [
    Extension(
        f"packing._kernels.{path.stem}",
        [str(path)],
        depends=sorted(map(str, Path("packing/_kernels").glob("*.pxd"))),
        define_macros=macros,
        extra_compile_args=compile_args,
        extra_link_args=link_args,
        py_limited_api=True,
    )
    for path in sorted(Path("packing/_kernels").glob("*.pyx"))
]
for extension in extensions:
    extension.cython_directives = directives

setup(
    ext_modules=extensions,
    options={
        "bdist_wheel": {"py_limited_api": "cp311"},
        "build_ext": {"cython_c_in_temp": True, "parallel": os.cpu_count()},
        "build": {"build_base": "build/checked" if checked else "build/release"},
    },
)
