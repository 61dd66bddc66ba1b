"""GET / and its two files: a page with no build step that asks nobody but this server."""

from importlib.resources import files

from fastapi import APIRouter
from starlette.responses import Response

router = APIRouter(include_in_schema=False)
TYPES = {"index.html": "text/html", "page.css": "text/css", "page.js": "text/javascript"}


@router.get("/")
async def index() -> Response:
    """The page."""
    return _file("index.html")


@router.get("/page.css")
async def style() -> Response:
    """Its looks."""
    return _file("page.css")


@router.get("/page.js")
async def script() -> Response:
    """Its script."""
    return _file("page.js")


def _file(name: str) -> Response:
    data = (files("circuit_exec.server") / "page" / name).read_bytes()
    return Response(data, headers={"Content-Type": f"{TYPES[name]}; charset=utf-8", "Cache-Control": "no-cache"})
