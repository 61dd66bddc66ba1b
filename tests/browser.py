"""Headless Chromium for tests of pages: a browser of the system, driven by playwright; skipped where one is missing."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)
LIMIT_MS = 600_000
"""Of one action: a machine that is busy, or stands still for minutes, is no failure."""
SIZES = {"phone": (390, 844), "desk": (1280, 800)}


@contextmanager
def chromium() -> Iterator[Any]:
    """The browser."""
    api = pytest.importorskip("playwright.sync_api", reason="needs `pip install -e .[page]`")
    if CHROMIUM is None:
        pytest.skip("needs Chromium, for example `apt install chromium`")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@contextmanager
def opened(browser: Any, address: str, size: str, scheme: str) -> Iterator[Any]:  # noqa: ANN401
    """A page; whatever its script or the browser complains of fails the test, and so does a request elsewhere."""
    width, height = SIZES[size]
    page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
    page.set_default_timeout(LIMIT_MS)
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: said.extend([message.text] * (message.type in ("error", "warning"))))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(address)
    yield page
    page.close()
    assert said == []
    assert [url for url in asked if not url.startswith(address) and not url.startswith("data:")] == []
