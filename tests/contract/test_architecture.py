"""The architecture's rules: who imports whom, what importing costs nobody, how large a file gets."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys

import pytest

from packing import _kernels
from tests.conftest import ROOT
from tests.contract.sources import PACKAGE, imports, module_name, python_files

RULES = [
    ("registry", "algorithms", "built-ins are text in specs"),
    ("registry", "estimators", "built-ins are text in specs"),
    ("registry", "planner", "names are resolved below the planner"),
    ("algorithms", "planner", "one direction, no way back"),
    ("algorithms", "registry", "an algorithm does not look up others"),
    ("algorithms", "plugin", "an algorithm knows problems and assignments only"),
    ("estimators", "planner", "one direction, no way back"),
    ("estimators", "registry", "an estimator does not look up others"),
    ("_reference", "_kernels", "the twins stand on their own"),
    ("_reference", "algorithms", "the twins stand on their own"),
]


def inside(module: str, part: str) -> bool:
    return module == f"packing.{part}" or module.startswith(f"packing.{part}.")


@pytest.mark.parametrize(("part", "forbidden", "why"), RULES, ids=[f"{a}-{b}" for a, b, _ in RULES])
def test_no_module_imports_what_it_must_not(part, forbidden, why):
    files = [path for path in python_files() if inside(module_name(path), part)]
    assert files
    found = {
        f"{module_name(path)} imports {name}" for path in files for name in imports(path) if inside(name, forbidden)
    }
    assert not found, why


def test_the_kernels_import_nothing_of_the_package_but_their_twins():
    dispatcher = PACKAGE / "_kernels" / "__init__.py"
    for path in python_files(PACKAGE / "_kernels"):
        ours = {name for name in imports(path) if name.startswith("packing") and not inside(name, "_kernels")}
        assert path == dispatcher or not ours
        assert all(inside(name, "_reference") for name in ours)
    for path in (PACKAGE / "_kernels").glob("*.p[yx]?"):
        for line in path.read_text().splitlines():
            words = re.match(r"\s*(?:from\s+(\S+)\s+c?import|c?import\s+(\S+))", line)
            module = words and (words[1] or words[2])
            assert not module or not module.startswith("packing") or module.startswith("packing._kernels"), (path, line)
            assert not re.match(r"#\s*cython:", line), f"{path}: directives live in setup.py"


def test_the_twins_import_nothing_but_numpy_and_each_other():
    for path in python_files(PACKAGE / "_reference"):
        foreign = {name.split(".")[0] for name in imports(path) if not inside(name, "_reference")} - {"packing"}
        assert foreign <= {"numpy", *sys.stdlib_module_names}


def test_the_adapters_are_imported_only_when_they_are_used():
    """Nothing outside an adapter imports it or its library."""
    heavy = ("torch", "jax", "ray", "click", "rich", "yaml", "pyarrow", "transformers")
    for path in python_files():
        part = module_name(path).split(".")[1:2]
        if part and part[0] in ("torch", "jax", "ray", "compat", "cli", "report", "__main__"):
            continue
        for name in imports(path):
            assert name.split(".")[0] not in heavy, (path, name)
            assert not any(inside(name, one) for one in ("torch", "jax", "ray", "cli", "report")), (path, name)


def test_drop_in_functions_need_no_library_before_they_are_called():
    modules = [module_name(path) for path in python_files(PACKAGE / "compat")]
    loaded = fresh(f"import sys, {', '.join(modules)}; print(*sys.modules)").split()
    assert not {name.split(".")[0] for name in loaded} & {"torch", "datasets", "pyarrow", "transformers"}


IMPORT = """
import sys
import numpy
before = set(sys.modules)
import packing
new = set(sys.modules) - before
print(*sorted(new))
"""


def fresh(code: str, *options: str) -> str:
    """Output of a fresh, isolated process; warnings are errors."""
    # -I leaves the folder of the package out: it is put back by hand.
    code = f"import sys; sys.path.insert(0, {str(PACKAGE.parent)!r})\n{code}"
    command = [sys.executable, "-I", "-W", "error", *options, "-c", code]
    process = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert process.returncode == 0, process.stderr
    return process.stdout


def test_importing_the_package_imports_next_to_nothing():
    assert set(fresh(IMPORT).split()) <= {"__future__", "packing", "packing._version"}


def test_every_module_imports_on_its_own_without_a_warning():
    modules = [module_name(path) for path in python_files() if path.name != "__main__.py"]
    code = f"""
import importlib
for name in {modules!r}:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        # The libraries of an extra may be missing; ours may not.
        assert not error.name.startswith("packing"), error
for heavy in ("torch", "jax", "ray", "transformers"):
    assert heavy not in sys.modules, heavy
"""
    fresh(code)


def test_a_plan_loads_no_plugin_and_no_heavy_library():
    code = """
from packing import Planner
Planner(data_parallel_size=2, seq_len=99, algorithm="kk", estimator="attention").plan([5, 6, 7, 8])
print(*sorted(sys.modules))
"""
    loaded = set(fresh(code).split())
    assert "packing.algorithms.differencing" in loaded
    assert not loaded & {"torch", "jax", "ray", "click", "rich", "yaml", "packing.cli", "packing.algorithms.placement"}
    assert ("packing._reference.kk" in loaded) is (_kernels.backend == "reference")


@pytest.mark.parametrize(
    ("pattern", "limit"), [("*.py", 350), ("*.pyx", 420), ("*.pxd", 350)], ids=["py", "pyx", "pxd"]
)
def test_no_file_is_too_long(pattern, limit):
    lines = {path: len(path.read_text().splitlines()) for path in PACKAGE.rglob(pattern)}
    if not lines and pattern == "*.pyx":
        pytest.skip("an installed package has no .pyx files")
    assert lines
    assert not {f"{path.relative_to(PACKAGE)} has {count}" for path, count in lines.items() if count > limit}


def test_type_information_is_shipped():
    assert (PACKAGE / "py.typed").is_file()
    assert 'packing = ["py.typed"' in (ROOT / "pyproject.toml").read_text()
    for name in _kernels.__all__:
        assert name == "backend" or (PACKAGE / "_kernels" / f"_{name}.pyi").is_file()


def test_every_module_says_what_it_is_in_one_sentence():
    for path in python_files():
        summary = (ast.get_docstring(ast.parse(path.read_text())) or "").split("\n\n")[0]
        assert summary.endswith("."), path


def test_the_readme_names_every_hook_with_its_arguments():
    readme = ROOT / "README.md"
    if not readme.exists():
        pytest.skip("an installed package has no README")
    from packing.registry import _hooks

    for name in ("packing_algorithms", "packing_estimators"):
        arguments = ", ".join(inspect.signature(getattr(_hooks, name)).parameters)
        assert f"{name}({arguments})" in readme.read_text()
