"""The project's own data files as a Library, and a class loaded from them."""

from pathlib import Path

from circuit.load.families import Family, load_families
from circuit.load.hardware import load_hardware
from circuit.load.inputs import Library
from circuit.load.rules import Rule, load_rules
from circuit.text import Source

ROOT = Path(__file__).resolve().parents[2]


def own_library() -> Library:
    """Every TOML file under kernels/ and recipes/, by its path from the root of the project."""
    paths = sorted(p for folder in ("kernels", "recipes") for p in (ROOT / folder).rglob("*.toml"))
    return Library(files=tuple(Source(path=p.relative_to(ROOT).as_posix(), text=p.read_text("utf-8")) for p in paths))


def with_files(library: Library, **texts: str) -> Library:
    """The library with more files, or other texts; `__` in a name stands for `/`, and `.toml` is added."""
    files = {source.path: source for source in library.files}
    for name, text in texts.items():
        path = name.replace("__", "/") + ".toml"
        files[path] = Source(path=path, text=text)
    return Library(files=tuple(files[path] for path in sorted(files)))


def class_rules(library: Library, name: str = "cpu") -> tuple[Rule, ...]:
    """The rules of a class."""
    hardware = load_hardware(library, name)
    return load_rules(library, hardware, load_families(library, hardware))


def class_families(library: Library, name: str = "cpu") -> tuple[Family, ...]:
    """The families of a class."""
    return load_families(library, load_hardware(library, name))
