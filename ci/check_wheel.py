"""Checks what is in the sdist and in the wheel: one abi3 wheel, no C files, no debug symbols, no tracing."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path


def main(sdist: str, wheel: str) -> None:
    tag = Path(wheel).name.split("-", 2)[2]
    assert tag.startswith("cp311-abi3-"), f"the wheel must be one abi3 wheel for 3.11 and newer, but is {tag}"

    with tarfile.open(sdist) as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]
    sources = {name for name in names if name.endswith(".pyx")}
    assert sources, "the sdist must hold the .pyx files"
    assert any(name.endswith(".pxd") for name in names), "the sdist must hold the .pxd files"
    assert not [name for name in names if name.endswith((".c", ".so"))], "the sdist must hold no built file"

    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        modules = [name for name in names if name.endswith(".so")]
        stubs = {name for name in names if name.endswith(".pyi")}
        assert len(modules) == len(sources), f"every .pyx must be in the wheel, but there are {modules}"
        assert all(name.endswith(".abi3.so") for name in modules), f"only abi3 modules, but got {modules}"
        assert not [name for name in names if name.endswith((".c", ".pyx", ".html"))], "the wheel must hold no source"
        assert "packing/py.typed" in names
        for name in modules:
            assert name.replace(".abi3.so", ".pyi") in stubs, f"{name} has no stub"
        assert any(name.startswith("packing/data/openchat_v1") for name in names), "the bundled sample is missing"
        with tempfile.TemporaryDirectory() as folder:
            for name in modules:
                path = archive.extract(name, folder)
                content = Path(path).read_bytes()
                assert b"__Pyx_TraceSetup" not in content, f"{name} is traced"
                if sys.platform.startswith("linux"):
                    sections = subprocess.run(
                        ["readelf", "--sections", "--wide", path], capture_output=True, text=True, check=True
                    ).stdout
                    assert ".debug_" not in sections, f"{name} has debug symbols"
                    assert ".symtab" not in sections, f"{name} is not stripped"
        total = sum(archive.getinfo(name).file_size for name in names)
    print(f"{Path(wheel).name}: {len(modules)} kernels, {total / 1e6:.1f} MB unpacked")


if __name__ == "__main__":
    main(*sys.argv[1:])
