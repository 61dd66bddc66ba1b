"""The page in headless Chromium: a chat in pieces, a stop, what runs, at the sizes of a phone and of a desk."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.browser import SIZES, chromium
from tests.browser import opened as opened_at
from tests.server.harness import Server, wait_for

pytestmark = pytest.mark.slow

STOP_EARLY = """() => new Promise((resolve) => {
  const watch = new MutationObserver(() => {
    if (!document.querySelector("#log li.assistant")?.textContent) return;
    watch.disconnect();
    document.getElementById("stop").click();
    resolve();
  });
  watch.observe(document.getElementById("log"), { childList: true, subtree: true });
  document.getElementById("send").click();
})"""
"""Sends, and stops the answer at its first text: a tiny model is faster than a hand."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@contextmanager
def opened(browser: Any, server: Server, size: str, scheme: str) -> Iterator[Any]:  # noqa: ANN401
    """The page of the server, once it has shown what runs."""
    with opened_at(browser, f"http://127.0.0.1:{server.port}/", size, scheme) as page:
        page.wait_for_selector("#strip .launch")
        yield page


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_chat_and_what_runs_are_shown(browser: Any, server: Server, size: str, scheme: str) -> None:  # noqa: ANN401
    with opened(browser, server, size, scheme) as page:
        assert page.text_content("#model") == "model"
        assert server.printed[2].split()[1][:16] in page.text_content("#about")
        runs = server.get("/forward").json()
        assert page.locator("#strip .launch").count() == runs["plans"][0]["launches"]
        assert page.locator("#plans tbody tr").count() == len(runs["plans"])
        page.fill("#tokens", "12")
        page.fill("#prompt", "the cat")
        page.press("#prompt", "Enter")
        page.wait_for_selector("#send:visible")
        first = page.text_content("#log li.assistant")
        assert first
        expected = server.post(
            "/v1/chat/completions",
            {
                "model": "model", "messages": [{"role": "user", "content": "the cat"}], "temperature": 0, "seed": 0,
                "max_tokens": 12,
            },
        ).json()["choices"][0]["message"]["content"]  # fmt: skip
        assert first == expected
        page.wait_for_function("document.getElementById('line').getAttribute('d').length > 0")
        assert re.fullmatch(r"\d+ held, \d+ cached, of \d+", page.text_content("#pages"))
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= SIZES[size][0], "nothing is wider than the screen"
        background = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (background == "rgb(20, 23, 26)") == (scheme == "dark")
        page.hover("#strip .layer:nth-child(2) .launch")
        assert page.text_content("#picked").startswith("layer 0: ")


def test_an_answer_can_be_stopped_and_a_chat_begun_anew(browser: Any, server: Server) -> None:  # noqa: ANN401
    with opened(browser, server, "desk", "light") as page:
        page.fill("#tokens", "1000")
        page.fill("#temperature", "1")
        page.fill("#prompt", "on the mat")
        page.evaluate(STOP_EARLY)
        page.wait_for_selector("#log li.cut")
        page.wait_for_selector("#send:visible")
        wait_for(lambda: server.now()["running"] == 0)
        page.click("#clear")
        assert page.locator("#log li").count() == 0


def test_what_the_model_says_is_text_and_never_markup(browser: Any, server: Server) -> None:  # noqa: ANN401
    with opened(browser, server, "desk", "light") as page:
        page.fill("#tokens", "1")
        page.fill("#prompt", "<img src=x onerror=alert(1)><b>bold</b>")
        page.click("#send")
        page.wait_for_selector("#log li.assistant")
        assert page.text_content("#log li.user") == "<img src=x onerror=alert(1)><b>bold</b>"
        assert page.locator("#log img, #log b").count() == 0


def test_a_refusal_is_shown(browser: Any, server: Server) -> None:  # noqa: ANN401
    width, height = SIZES["desk"]
    page = browser.new_page(viewport={"width": width, "height": height})
    page.goto(f"http://127.0.0.1:{server.port}/")
    page.wait_for_selector("#strip .launch")
    page.fill("#tokens", "1")
    page.fill("#prompt", "x" * 1100)
    page.click("#send")
    page.wait_for_selector("#problem:visible")
    assert "the context is 1024" in page.text_content("#problem")
    page.close()
