"""The kernel and recipe texts that come with the package: a folder of the wheel, or the checkout's own folders."""

from pathlib import Path

from circuit.load.inputs import Library
from circuit.text import Source

SUFFIXES = (".c", ".h", ".toml")


def library() -> Library:
    """Every text of kernels/, and the default policy, sorted by path; paths start with the folder's name.

    Recipes of models are not among them: no plan depends on them.
    """
    root = library_root()
    paths = sorted(
        path.relative_to(root).as_posix()
        for path in (*(root / "kernels").rglob("*"), root / "recipes" / "default.toml")
        if path.suffix in SUFFIXES
    )
    return Library(files=tuple(Source(path=path, text=(root / path).read_text(encoding="utf-8")) for path in paths))


def library_root() -> Path:
    """Where kernels/ and recipes/ are: packed into circuit_exec/data by the wheel, beside the package in a checkout."""
    here = Path(__file__).resolve().parent
    roots = (here / "data", here.parent)
    for root in roots:
        if (root / "kernels").is_dir():
            return root
    raise AssertionError(f"no kernels/ in {' or '.join(map(str, roots))}: the installation is incomplete")
