"""The kernel and recipe texts that come with the package: a folder of the wheel, or the checkout's own folders."""

from pathlib import Path

from circuit.errors import LoadError, Problem
from circuit.load.inputs import Library
from circuit.text import Source

SUFFIXES = (".c", ".h", ".toml")


def library(folder: Path | None = None) -> Library:
    """Every text of kernels/, and the default policy, sorted by path; paths start with the folder's name.

    Recipes of models are not among them: no plan depends on them. `folder` holds another version of the texts.
    """
    root = library_root() if folder is None else folder
    for needed in (root / "kernels", root / "recipes" / "default.toml"):
        if folder is not None and not needed.exists():
            message = f"the folder holds no {needed.relative_to(root).as_posix()}"
            fix = "give a folder that holds kernels/ and recipes/, as a checkout of met does"
            raise LoadError(Problem(message=message, fix=fix, file=str(folder)))
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
