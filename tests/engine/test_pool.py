"""Pages are never lost, never held twice where they are written, and found again under equal tokens only."""

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from numpy.typing import NDArray

from circuit.emit.layout import PAGE
from circuit_exec.engine.pool import Kept, Pool

N_PAGES = 9
Ids = NDArray[np.int32]


def ids(pages: str, tail: int = 1) -> Ids:
    """A page for each letter, then a part of one."""
    return np.array([ord(letter) for letter in pages for _ in range(PAGE)] + [1] * tail, np.int32)


class Choice:
    """A choice in the model of the test: the letters of its tokens, its path, its pages."""

    def __init__(self, letters: str, path: list[Kept]) -> None:
        self.letters, self.path, self.pages = letters, path, [kept.page for kept in path]


class Pages(RuleBasedStateMachine):
    """Choices come, compute pages, and go; `held` says what each page is known to hold, by its letters."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = Pool(N_PAGES, "f", keeps=True)
        self.choices: list[Choice] = []
        self.on: dict[int, str] = {}  # page -> the letters up to its end, written when it was taken

    @rule(letters=st.text("ab", min_size=1, max_size=4))
    def come(self, letters: str) -> None:
        path = self.pool.find(ids(letters))
        self.pool.hold(path)
        for place, kept in enumerate(path):
            assert self.on[kept.page] == letters[: place + 1], "another's page is found"
        self.choices.append(Choice(letters, path))

    @precondition(lambda self: self.choices)
    @rule(which=st.integers(0, 100))
    def compute(self, which: int) -> None:
        """One more page is written, and is then full."""
        choice = self.choices[which % len(self.choices)]
        place = len(choice.pages)
        if place == len(choice.letters):
            return
        before = self.pool.free()
        page = self.pool.take()
        assert (page is None) == (before == 0)
        if page is None:
            return
        readers = [other for other in self.choices if page in other.pages]
        assert readers == [], "a page that others read is written"
        self.on[page] = choice.letters[: place + 1]
        read = self.pool.keep(choice.path, ids(choice.letters)[place * PAGE : (place + 1) * PAGE], page)
        assert self.on[read] == choice.letters[: place + 1]
        choice.pages.append(read)

    @precondition(lambda self: self.choices)
    @rule(which=st.integers(0, 100))
    def go(self, which: int) -> None:
        choice = self.choices.pop(which % len(self.choices))
        self.pool.release(choice.path, choice.pages[len(choice.path) :])

    @invariant()
    def every_page_is_free_or_held(self) -> None:
        held = {page for choice in self.choices for page in choice.pages}
        assert self.pool.free() == N_PAGES - len(held)

    def teardown(self) -> None:
        for choice in self.choices:
            self.pool.release(choice.path, choice.pages[len(choice.path) :])
        assert self.pool.free() == N_PAGES
        taken = [self.pool.take() for _ in range(N_PAGES)]
        assert sorted(page for page in taken if page is not None) == list(range(N_PAGES))
        assert self.pool.take() is None
        assert self.pool.kept() == 0


TestPages = Pages.TestCase
TestPages.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)


def filled(pool: Pool, letters: str) -> list[Kept]:
    """The path of a choice that computed its tokens and is still there."""
    path = pool.find(ids(letters))
    pool.hold(path)
    for place in range(len(path), len(letters)):
        page = pool.take()
        assert page is not None
        pool.keep(path, ids(letters)[place * PAGE : (place + 1) * PAGE], page)
    return path


def test_a_prefix_leaves_a_token_to_compute() -> None:
    pool = Pool(4, "f", keeps=True)
    pool.release(filled(pool, "ab"), ())
    assert len(pool.find(ids("ab", tail=0))) == 1
    assert len(pool.find(ids("ab", tail=1))) == 2
    assert len(pool.find(ids("ba"))) == 0


def test_the_longest_unused_end_goes_first() -> None:
    pool = Pool(4, "f", keeps=True)
    old, new = filled(pool, "ab"), filled(pool, "ba")
    pool.release(old, ())
    pool.release(new, ())
    pool.take()
    assert [len(pool.find(ids(letters))) for letters in ("ab", "ba")] == [1, 2]
    pool.take()
    assert [len(pool.find(ids(letters))) for letters in ("ab", "ba")] == [1, 1]


def test_a_pool_that_keeps_nothing_has_its_pages_back_at_once() -> None:
    pool = Pool(2, "f", keeps=False)
    page = pool.take()
    assert page is not None
    path: list[Kept] = []
    assert pool.keep(path, ids("a")[:PAGE], page) == page
    assert path == []
    pool.release(path, (page,))
    assert (pool.free(), pool.kept(), pool.find(ids("a"))) == (2, 0, [])
