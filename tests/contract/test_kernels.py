"""The kernels' outside: one signature for both forms, the integer vocabulary, and no silent fallback."""

from __future__ import annotations

import importlib
import inspect
import os
import re
import subprocess
import sys

import numpy as np
import pytest

from packing import _kernels
from tests.contract.sources import PACKAGE

NAMES = sorted({*_kernels.__all__} - {"backend"})
SOURCES = sorted((PACKAGE / "_kernels").glob("_*.pyx"))  # none in an installed package
compiled_only = pytest.mark.skipif(_kernels.backend == "reference", reason="the compiled kernels are switched off")


def public(module) -> dict[str, object]:
    return {
        name: value
        for name, value in vars(module).items()
        if not name.startswith("_") and (inspect.isroutine(value) or isinstance(value, int))
    }


def functions(module) -> dict[str, list[str]]:
    """Public functions defined in a module, with the names of their parameters in order."""
    return {
        name: list(inspect.signature(value).parameters)
        for name, value in public(module).items()
        if inspect.isroutine(value) and getattr(value, "__module__", None) == module.__name__
    }


def stub_signatures(name: str) -> dict[str, list[str]]:
    text = (PACKAGE / "_kernels" / f"_{name}.pyi").read_text()
    return {
        function: re.findall(r"(\w+):", arguments)
        for function, arguments in re.findall(r"^def (\w+)\((.*?)\) ->", text, flags=re.MULTILINE | re.DOTALL)
    }


def test_there_are_kernels():
    assert NAMES
    assert sorted(path.stem for path in (PACKAGE / "_reference").glob("[a-z]*.py")) == NAMES
    assert [path.stem[1:] for path in SOURCES] in (NAMES, [])


@compiled_only
@pytest.mark.parametrize("name", NAMES)
def test_a_kernel_and_its_twin_have_one_signature(name):
    compiled = importlib.import_module(f"packing._kernels._{name}")
    twin = importlib.import_module(f"packing._reference.{name}")
    assert functions(compiled)
    # Twins may share helpers among themselves; what the dispatcher hands out is in both.
    assert functions(twin).items() >= functions(compiled).items()
    assert {k: v for k, v in public(compiled).items() if isinstance(v, int)} == {
        k: v for k, v in public(twin).items() if isinstance(v, int)
    }


@pytest.mark.parametrize("name", NAMES)
def test_a_stub_lists_exactly_what_there_is(name):
    twin = functions(importlib.import_module(f"packing._reference.{name}"))
    assert stub_signatures(name)
    assert twin.items() >= stub_signatures(name).items()
    if _kernels.backend == "compiled":
        assert stub_signatures(name) == functions(getattr(_kernels, name))


@pytest.mark.parametrize("name", NAMES)
def test_every_function_of_a_kernel_has_a_docstring(name):
    for module in (importlib.import_module(f"packing._reference.{name}"), getattr(_kernels, name)):
        for function in functions(module):
            assert getattr(module, function).__doc__, f"{module.__name__}.{function}"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_a_kernel_begins_with_its_note(path):
    """(a) the data layout, (b) the manual loop, (c) the tie rule, (d) the cost."""
    text = path.read_text()
    head = text[: text.index("import")]
    positions = [head.find(f"({letter})") for letter in "abcd"]
    assert -1 not in positions
    assert positions == sorted(positions)


def typedefs() -> list[str]:
    text = (PACKAGE / "_kernels" / "_typedefs.pxd").read_text()
    return re.search(r"cimport (.+)", text)[1].replace(" ", "").split(",")


def test_the_typedefs_are_numpys_integers():
    assert {"int32_t", "int64_t", "uint8_t"} <= set(typedefs())
    for typedef in typedefs():
        dtype = np.dtype(typedef.removesuffix("_t"))
        view = memoryview(np.empty(1, dtype))
        assert 8 * view.itemsize == int(re.search(r"\d+", typedef)[0])


@compiled_only
@pytest.mark.parametrize("wrong", [np.int8, np.int16, np.int32, np.int64, np.uint64, np.float64])
def test_the_kernels_take_exactly_these_integers(wrong):
    """The C compiler's sizes: a typed memoryview takes a buffer only if item size and kind are those of the typedef."""
    right = {"primary": np.int64, "secondary": np.int64, "order": np.int32, "workspace": np.uint8}
    size = _kernels.order.descending_workspace(3)

    def arguments(**changed):
        dtypes = right | changed
        lengths = {"workspace": size}
        return [np.zeros(lengths.get(name, 3), dtype) for name, dtype in dtypes.items()]

    _kernels.order.descending(*arguments())
    for name, dtype in right.items():
        if dtype != wrong:
            with pytest.raises(ValueError, match="Buffer dtype mismatch"):
                _kernels.order.descending(*arguments(**{name: wrong}))


# ------------------------------------------------------------------------------------------------ no silent fallback


def start(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in os.environ.items() if name != "PACKING_KERNELS"}
    return subprocess.run(
        [sys.executable, "-c", code],
        env=inherited | {"PYTHONPATH": str(PACKAGE.parent)} | environment,
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.parametrize("value", ["nonsense", "", "Reference", "1"])
def test_an_unknown_backend_is_an_import_error(value):
    process = start("from packing import Planner", PACKING_KERNELS=value)
    assert process.returncode == 1
    last = process.stderr.strip().splitlines()[-1]
    assert last == f'ImportError: `PACKING_KERNELS` must be "compiled" or "reference", but got {value!r}.'


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_compiled_module_is_an_import_error(name):
    code = f"import sys; sys.modules['packing._kernels._{name}'] = None\nfrom packing import Planner"
    process = start(code)
    assert process.returncode == 1
    last = process.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: the compiled kernels of packing cannot be loaded (")
    assert last.endswith(", or set PACKING_KERNELS=reference to run the slow plain-Python twins")
    assert "reinstall packing" in last or "this is its source tree" in last
    assert start(code, PACKING_KERNELS="reference").returncode == 0


@pytest.mark.parametrize("backend", ["reference", pytest.param("compiled", marks=compiled_only)])
def test_the_backend_is_the_one_that_was_asked_for(backend):
    code = "from packing import _kernels, Planner\nprint(_kernels.backend, _kernels.kk.__name__)"
    wanted = {"reference": "packing._reference.kk", "compiled": "packing._kernels._kk"}[backend]
    assert start(code, PACKING_KERNELS=backend).stdout.split() == [backend, wanted]
    if backend == "compiled":
        assert start(code).stdout.split() == [backend, wanted]
