"""Runs of a tiny model compared: what is equal, the controls, and faults found down to the element."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from circuit.errors import LoadError, RunError
from circuit_exec.cache import Cache
from circuit_exec.checkpoint.open import open_checkpoint
from circuit_exec.diff.run import Pair, Report, Request, diff
from circuit_exec.diff.sides import Alter, Side, Sides, claims_equal, unaltered
from circuit_exec.logits import all_logits
from circuit_exec.model import load_model
from tests import models
from tests.diff.faults import fault_in, last_bit_flipped, replaced

BASE = Side(rules="reference", policy=(), threads=1, chunk=None, steps=0)
FUSED = replace(BASE, rules="all")
OTHER = replace(BASE, chunk=64)
A_FILE = "give a file that numpy.save wrote, float32 [positions, vocabulary]"
EPSILON = "0x1.4f8b580000000p-17f"
Run = Callable[..., Report]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("diff")
    models.write_checkpoint(path / "model", models.tiny_config("qwen3"))
    return path


@pytest.fixture(scope="module")
def sides(folder: Path, share: Callable[[Cache], Cache]) -> Sides:
    cache = share(Cache(root=folder / "cache"))
    return Sides(checkpoint=open_checkpoint(str(folder / "model")), cache=cache, progress=lambda what, part: None)


@pytest.fixture(scope="module")
def run(sides: Sides) -> Run:
    def found(request: Request, alter: Alter = unaltered) -> Report:
        return diff(request, replace(sides, alter=alter))

    return found


def request(*others: Side, tokens: int = 70, see: str = "groups", asked: tuple[int, ...] | None = None) -> Request:
    """Every position of so many pseudo-text tokens, or those that are asked for."""
    assert see in ("groups", "logits")
    wanted = tuple(range(tokens)) if asked is None else asked
    return Request(tokens=tokens, asked=wanted, sides=(BASE, *others), see="groups" if see == "groups" else "logits")


def pair_of(report: Report, name: str) -> Pair:
    (found,) = (pair for pair in report.pairs if pair.name == name)
    return found


def test_the_repeat_is_equal_and_the_control_differs_at_the_changed_token(run: Run) -> None:
    report = run(request())
    assert report.holds
    repeat, control, unwatched = report.pairs
    assert (repeat.name, repeat.must, repeat.found.n_different) == ("repeat", "be equal", 0)
    assert (unwatched.name, unwatched.must, unwatched.found.n_different) == ("unwatched", "be equal", 0)
    assert repeat.found.n_edges > 30
    assert (control.name, control.must) == ("control", "differ")
    assert control.found.first is not None
    assert (control.found.first.edge, control.found.first.position) == ("embed.x", 69)


def test_fused_and_single_rules_are_equal_on_the_edges_that_both_have(run: Run) -> None:
    side = pair_of(run(request(FUSED)), "side")
    assert (side.must, side.found.n_different) == ("be equal", 0)
    assert side.found.only[0] > 0  # at least the products of gate and up of two layers
    assert side.found.only[1] == 0


@pytest.mark.parametrize("other", [replace(BASE, chunk=7), replace(BASE, steps=5), replace(BASE, threads=2, chunk=16)])
def test_steps_of_other_lengths_are_compared_position_by_position(run: Run, other: Side) -> None:
    side = pair_of(run(request(other)), "side")
    same = pair_of(run(request()), "repeat")
    assert side.must == "be equal"
    assert (side.found.n_different, side.found.n_elements) == (0, same.found.n_elements)


def test_no_equality_is_claimed_over_other_bytes_or_an_axis_that_does_not_hold(sides: Sides) -> None:
    made = sides.running(BASE)
    with sides.opened(BASE, made, 1) as one:
        chunked = replace(one, side=OTHER)
        assert claims_equal(one, chunked)
        assert not claims_equal(one, replace(chunked, made=replace(made, bytes_digest="another")))
        for axis in ("prefill chunking", "run to run"):
            unclaimed = replace(made, holds=made.holds - {axis})
            side = OTHER if axis == "prefill chunking" else BASE
            assert not claims_equal(one, replace(one, side=side, made=unclaimed))
            assert not claims_equal(replace(one, made=unclaimed), replace(one, side=side))


def test_a_changed_constant_in_one_launch_is_found_in_that_launch(run: Run) -> None:
    """The epsilon of the second layer's norm of queries, whose edge nothing before depends on."""
    fault = fault_in("l1.attn.q_norm", replaced(EPSILON, "0x1p-10f"), lambda side: side == OTHER)
    report = run(request(OTHER), fault)
    assert not report.holds
    side = pair_of(report, "side")
    assert not side.holds
    first = side.found.first
    assert first is not None
    assert first.edge == "l1.attn.q_normed"
    assert [at.members for at in first.at] == [("l1.attn.q_norm",)] * 2
    assert [at.step for at in first.at] == [0, 0]
    assert pair_of(report, "repeat").holds


def test_one_wrong_bit_is_found_with_its_row_column_and_values(run: Run) -> None:
    """Row 3 of a step of 64 rows of 64 columns: position 3 of the first step, 67 of the second, which has 6 rows."""
    fault = fault_in("l0.mlp.down", last_bit_flipped(3 * 64 + 17), lambda side: side == OTHER)
    first = pair_of(run(request(OTHER), fault), "side").found.first
    assert first is not None
    assert (first.edge, first.position, first.column, first.ulps) == ("l0.mlp.d", 3, 17, 1)
    assert first.words[0] ^ first.words[1] == 1
    assert (first.n_different, first.n_elements) == (1, 64 * 64)
    assert (first.at[0].rule, first.at[0].row, first.at[1].row) == ("linear", 3, 3)


def test_a_wrong_bit_in_a_page_is_found_in_the_launch_that_wrote_it(run: Run) -> None:
    """A page of 2 heads of 24: keys as [head][tile of 32][24][32], then values as [head][64][24]."""
    key, value = (1 * 2 * 24 + 5) * 32 + 9, 2 * 24 * 64 + (1 * 64 + 9) * 24 + 5
    for element, side_name in ((key, "keys"), (value, "values")):
        fault = fault_in("l1.attn.write", last_bit_flipped(element), lambda side: side == OTHER)
        first = pair_of(run(request(OTHER), fault), "side").found.first
        assert first is not None
        assert (first.edge, first.position, first.column) == (f"l1.attn.kv.{side_name}", 9, 29)
        assert (first.at[1].members, first.ulps, first.n_different) == (("l1.attn.write",), 1, 1)


def test_without_groups_the_first_logit_that_differs_is_found(run: Run) -> None:
    fault = fault_in("l0.mlp.down", last_bit_flipped(17), lambda side: side == OTHER)
    side = pair_of(run(request(OTHER, see="logits"), fault), "side")
    assert side.found.n_edges == 1
    assert side.found.first is not None
    assert (side.found.first.edge, side.found.first.position) == ("head.logits", 0)


def test_only_the_positions_that_are_asked_for_have_logits(run: Run) -> None:
    report = run(request(OTHER, see="logits", asked=(2, 65)))
    assert report.holds
    assert [pair.found.n_elements for pair in report.pairs] == [2 * 290] * 3
    assert report.changed[0] == 65


def saved(folder: Path, n: int = 70) -> tuple[Path, np.ndarray]:
    """The logits of the pseudo-text, as another program would leave them."""
    model = load_model(str(folder / "model"), Cache(root=folder / "cache"), 1, "all", (), lambda what, part: None)
    tokens = [(i * 7919 + 13) % 290 for i in range(n)]
    found = all_logits(model.program, model.pages, tokens, 16)
    model.close()
    path = folder / "logits.npy"
    np.save(path, found)
    return path, found


def test_logits_from_elsewhere_are_compared_within_a_tolerance(folder: Path, run: Run) -> None:
    path, values = saved(folder)
    asked = replace(request(see="logits"), against=path, tolerance=0.0)
    against = run(asked).against
    assert against is not None
    assert (against.largest, against.argmax, against.holds) == (0.0, 70, True)
    values[40, 7] += 100
    np.save(path, values)
    report = run(replace(asked, tolerance=0.5))
    assert not report.holds
    against = report.against
    assert against is not None
    assert (against.position, against.column, against.argmax, against.other_token) == (40, 7, 69, 40)
    assert (against.outside, against.first_outside) == (1, 40)
    assert against.largest == pytest.approx(100, abs=1e-3)
    assert run(replace(asked, tolerance=101.0)).holds


def test_logits_from_elsewhere_may_have_the_asked_rows_alone(folder: Path, run: Run) -> None:
    path, values = saved(folder)
    np.save(path, values[[2, 65]].astype(np.float64))
    report = run(replace(request(see="logits", asked=(2, 65)), against=path))
    assert report.against is not None
    assert (report.against.largest, report.against.n_positions) == (0.0, 2)


def test_a_logit_that_is_no_number_is_no_agreement(folder: Path, run: Run) -> None:
    path, values = saved(folder)
    values[3, 5] = np.nan
    np.save(path, values)
    against = run(replace(request(see="logits"), against=path, tolerance=1e30)).against
    assert against is not None
    assert (against.largest, against.position, against.holds) == (float("inf"), 3, False)


@pytest.mark.parametrize(
    ("array", "message", "fix"),
    [
        (
            np.zeros((70, 289), np.float32),
            "the file has logits of 289 tokens, the model has 290",
            "give logits of the same model",
        ),
        (
            np.zeros((69, 290), np.float32),
            "the file has 69 rows, the run 70 tokens and 70 positions to compare",
            "give a row for each token, or for each of --positions",
        ),
        (np.zeros((70, 290), np.int32), "the file holds int32 [70, 290], not logits", A_FILE),
        (np.zeros(70, np.float32), "the file holds float32 [70], not logits", A_FILE),
    ],
)
def test_logits_that_are_not_of_this_run_are_refused(
    folder: Path, run: Run, array: np.ndarray, message: str, fix: str
) -> None:
    path = folder / "wrong.npy"
    np.save(path, array)
    with pytest.raises((LoadError, RunError)) as caught:
        run(replace(request(see="logits"), against=path))
    assert [(p.message, p.fix, p.file) for p in caught.value.problems] == [(message, fix, str(path))]


def test_a_file_that_is_no_array_is_refused(folder: Path, run: Run) -> None:
    path = folder / "text.npy"
    with pytest.raises(LoadError, match="the logits cannot be read: no such file or directory"):
        run(replace(request(see="logits"), against=folder / "none.npy"))
    path.write_text("1 2 3")
    with pytest.raises(LoadError, match="the file is no NumPy array"):
        run(replace(request(see="logits"), against=path))
    np.savez(folder / "two", a=np.zeros(1))
    with pytest.raises(LoadError, match="the file holds an archive, not logits"):
        run(replace(request(see="logits"), against=folder / "two.npz"))
