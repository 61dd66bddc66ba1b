"""The texts of an emitted program's folder: its sources, a Makefile, what it is (manifest.txt) and how to use it."""

from msgspec import Struct

from circuit.bake.manifest import Manifest, manifest_digest
from circuit.emit.layout import Layout
from circuit.emit.model_text import Described, model_source
from circuit.emit.program import emit_program
from circuit.emit.sources import Sources
from circuit.load.inputs import Library, files_under
from circuit.plan.ir import Plan
from circuit.text import Source, quoted

DRIVER = "cpu/program"
"""The folder, under kernels/, of the C files that are the same for every model."""


class Machine(Struct, frozen=True, kw_only=True):
    """`name` is what `uname -s` and `uname -m` print, with a `-` between; `flags` name it to the compiler."""

    name: str
    flags: tuple[str, ...]


class Facts(Struct, frozen=True, kw_only=True):
    """What the folder states beside the plans. `content` is the checkpoint's content hash, None without weights.

    `chat` are the texts before and after a message, None where the program has no template. `tokenizer` says how text
    becomes ids.
    """

    described: Described
    flags: tuple[str, ...]
    machines: tuple[Machine, ...]
    content: str | None
    chat: tuple[str, str] | None
    tokenizer: str


def folder_sources(
    plans: tuple[Plan, ...], layout: Layout, manifest: Manifest, library: Library, facts: Facts
) -> Sources:
    """All C files, the Makefile and the README; manifest.txt is made last, with the hashes of all files."""
    driver = [*files_under(library, DRIVER, ".h"), *files_under(library, DRIVER, ".c")]
    named = [Source(path=source.path.rpartition("/")[2], text=source.text) for source in driver]
    sources = (*emit_program(plans), *named, model_source(layout, manifest, facts.described))
    return (
        *sources,
        Source(path="Makefile", text=_makefile(sources, facts)),
        Source(path="README.md", text=_readme(facts)),
    )


def manifest_source(
    plans: tuple[Plan, ...], manifest: Manifest, facts: Facts, files: tuple[tuple[str, str], ...]
) -> Source:
    """`files` are (path, SHA-256); their lines are what `sha256sum -c` reads."""
    first = plans[0]
    (bytes_digest,) = {dict(plan.parts)["bytes"] for plan in plans}
    lines = [
        f"model {quoted(facts.described.name)}",
        f"circuit {first.arch} on class {first.hardware_class}, context {first.context}",
        *(f"plan {plan.mode} rows {plan.rows[0]}-{plan.rows[1]} digest {plan.digest}" for plan in plans),
        f"bytes {bytes_digest}",
        *(f"policy {key} = {value}" for key, value in first.policy),
        *(f"certificate {axis.axis}: {axis.holds} ({axis.evidence})" for axis in first.certificate),
        f"weights {'of the checkpoint ' + facts.content if facts.content else 'made up by the program'}",
        f"weights manifest {manifest_digest(manifest)} bytes {manifest.n_bytes}",
        f"stops {' '.join(map(str, facts.described.stops)) or 'none'}",
        f"tokenizer {facts.tokenizer}",
        "chat none" if facts.chat is None else f"chat before {quoted(facts.chat[0])} after {quoted(facts.chat[1])}",
        "",
        "Every file and its SHA-256; `make check` compares them.",
        "",
        *(f"{digest}  {path}" for path, digest in files),
    ]
    return Source(path="manifest.txt", text="\n".join(lines) + "\n")


_MAKEFILE = """\
# `make` builds the program, `make bench` its measurement, `make check` compares all files with manifest.txt.
# -j compiles the kernels beside each other. The bytes depend on the flags: no fast-math, no contraction.

FLAGS = @FLAGS@ $(MACHINE_$(MACHINE))
MACHINE := $(shell uname -s)-$(shell uname -m)
@MACHINES@
ifeq ($(MACHINE_$(MACHINE)),)
$(error this program does not run on $(MACHINE), only on @NAMES@)
endif

PROGRAM = @PROGRAM@

model: main.o $(PROGRAM)
	$(CC) -o $@ $^ -pthread -lm

bench: bench.o $(PROGRAM)
	$(CC) -o $@ $^ -pthread -lm

%.o: %.c $(wildcard *.h)
	$(CC) $(FLAGS) $(CFLAGS) -c -o $@ $<

check:
	grep -E '^[0-9a-f]{64}  ' manifest.txt | sha256sum -c --quiet -

clean:
	rm -f model bench *.o kernels/*.o

.PHONY: check clean
"""


def _makefile(sources: Sources, facts: Facts) -> str:
    mains = ("main.c", "bench.c")
    objects = [s.path[:-2] + ".o" for s in sources if s.path.endswith(".c") and s.path not in mains]
    machines = "\n".join(f"MACHINE_{machine.name} = {' '.join(machine.flags)}" for machine in facts.machines)
    return (
        _MAKEFILE.replace("@FLAGS@", " ".join(facts.flags))
        .replace("@MACHINES@", machines)
        .replace("@NAMES@", ", ".join(machine.name for machine in facts.machines))
        .replace("@PROGRAM@", " \\\n  ".join(objects))
    )


_README = """\
# @NAME@ as a C program

    make -j
    @RUN@

It needs a C compiler, make and pthread. Nothing else is linked but fmaf of libm, where the machine has no instruction
for it. `make bench && ./bench` measures prefill and decode. `./model --help` lists the options.

- `kernels/`: one file a kernel. `steps.c`: which kernels run, in which order, on which bytes. `runtime.c`: threads.
- `session.c`: memory, weights, steps. `main.c`, `options.c`: the program. `model.c`: sizes and places.
- `tokenizer.c`, `words.c`, `pattern.c`, `utf8.c`: from text to ids and back, by the tables of `tokenizer.bin`.
- `manifest.txt`: which plan this is, what is claimed about its bytes, and the SHA-256 of every file (`make check`).

The kernels are those that `met run` runs, so the same ids give the same logits: `./model --ids 1,2,3 --logits-hash`
prints the hash that `met logits` prints. No byte depends on `--threads` or `--chunk`.

@WEIGHTS@
"""
_WITH = """\
`weights.bin` are the baked weights; `--weights FILE` names another place. `--fill` makes weights up instead."""
_WITHOUT = """\
This program came without weights. It makes them up, the same on every machine (`session.c` says how), and prints ids;
`--weights FILE` reads weights that were baked for it."""


def _readme(facts: Facts) -> str:
    has = facts.described.has_weights
    text = _README.replace("@NAME@", facts.described.name).replace("@WEIGHTS@", _WITH if has else _WITHOUT)
    return text.replace("@RUN@", './model "What is photosynthesis?"' if has else "./model")
