"""Planning is a function: nothing but its inputs is read, and the hash seed of Python changes nothing."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.models import tiny_config, write_config
from tests.structure.tree import ROOT

PLAN = """
import sys
from circuit.emit.program import emit_program
from circuit.emit.sources import program_text
from circuit.front.text import bir_text
from circuit.lower.text import groups_text
from circuit.compiled import Goal
from circuit.pipeline import compiled
from circuit.plan.text import unfolded_text
from circuit.tir.text import tir_text
from circuit_exec.checkpoint.open import open_checkpoint
from circuit_exec.checkpoint.texts import checkpoint_texts
from circuit_exec.library import library

texts, files, seen = checkpoint_texts(open_checkpoint("config.json")), library(), []
compiled(texts, library(), Goal(hardware_class="cpu"))  # imports what reads another library object's files

def hook(event, args):
    if event == "open" and str(args[0]).endswith((".py", ".pyc")):
        return  # Python's own module loading
    if event.partition(".")[0] in {"open", "os", "socket", "subprocess", "ctypes", "shutil", "tempfile", "mmap"}:
        seen.append(f"{event} {args}")

sys.addaudithook(hook)
@WORK@
print("\\n".join(seen) or "nothing was touched", file=sys.stderr)
"""
WORK = """
made = compiled(texts, files, Goal(hardware_class="cpu"))
groups = [groups_text(made.groups.tir, each.groups) for each in made.groups.sets]
source = program_text(emit_program(made.plans))
out = [bir_text(made.bir), tir_text(made.bound.tir), *groups, *map(unfolded_text, made.plans), source]
sys.stdout.write("\\n".join(out))
"""


def run(script: str, folder: Path, hash_seed: str) -> tuple[str, str]:
    """Runs it in a process of its own; gives both outputs."""
    write_config(folder, tiny_config("llama"))
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONHASHSEED": hash_seed}
    command = [sys.executable, "-c", script]
    ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout, ran.stderr


def test_planning_opens_nothing_and_two_hash_seeds_give_the_same_texts(tmp_path: Path) -> None:
    script = PLAN.replace("@WORK@", WORK)
    first, touched = run(script, tmp_path, "1")
    assert touched == "nothing was touched\n"
    second, _ = run(script, tmp_path, "2")
    assert first == second
    assert "digest" in first


@pytest.mark.parametrize(
    ("work", "event"),
    [
        ("open('config.json').close()", "open ('config.json'"),
        ("import os; os.listdir('.')", "os.listdir"),
        ("import socket; socket.socket().close()", "socket.__new__"),
        ("import subprocess; subprocess.run(['true'])", "subprocess.Popen"),
    ],
)
def test_the_hook_sees_what_planning_must_not_do(work: str, event: str, tmp_path: Path) -> None:
    _, touched = run(PLAN.replace("@WORK@", work), tmp_path, "1")
    assert event in touched
