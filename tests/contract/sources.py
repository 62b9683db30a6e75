"""What the contract tests know about the sources: files, imports, public names."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import packing

PACKAGE = Path(packing.__file__).parent
"""The package as it is tested: of this checkout, or installed from a wheel, which has no .pyx files."""


def python_files(folder: Path = PACKAGE) -> list[Path]:
    """Every module under a folder."""
    return sorted(folder.rglob("*.py"))


def module_name(path: Path) -> str:
    """The dotted name of a module's file."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path: Path) -> Iterator[str]:
    """Every module that a file imports, wherever in the file, and "module.name" for what is taken out of it."""
    package = module_name(path).split(".") if path.name == "__init__.py" else module_name(path).split(".")[:-1]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            argument = node.args[0]
            yield (
                argument.value if isinstance(argument, ast.Constant) else f"{module_name(path)}:{ast.unparse(argument)}"
            )
