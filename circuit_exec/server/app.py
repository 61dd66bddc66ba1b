"""The application: routes behind the guard, and every error in one shape."""

from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp

from circuit_exec.server.answers import ErrorAnswer
from circuit_exec.server.errors import TYPES, Refusal, Refused, error_object
from circuit_exec.server.guard import FAILED, Access, Guard
from circuit_exec.server.log import Log
from circuit_exec.server.metrics import Metrics
from circuit_exec.server.routes import chat, completions, embeddings, page, state, tokens
from circuit_exec.server.routing import note_refusal
from circuit_exec.server.served import Served
from circuit_exec.server.validation import details_of, refusal_of

ROUTERS = (chat.router, completions.router, embeddings.router, tokens.router, state.router, page.router)
ERRORS: dict[int | str, dict[str, object]] = {
    status: {"model": ErrorAnswer} for status in (400, 401, 403, 404, 405, 408, 413, 415, 429, 431, 500, 503, 504)
}


def make_app(served: Served, metrics: Metrics) -> FastAPI:
    """The FastAPI application of one server."""
    app = FastAPI(
        title="met",
        summary="An OpenAI-compatible server whose answers are a function of the request and the plan.",
        version=served.description.fingerprint[:12],
        docs_url=None,
        redoc_url=None,
        exception_handlers={
            Refused: _on_refused,
            RequestValidationError: _on_invalid,
            HTTPException: _on_http,
            Exception: _on_failure,
        },
    )
    app.state.served = served
    app.state.metrics = metrics
    app.state.draining = False
    for router in ROUTERS:
        app.include_router(router, responses=ERRORS)
    document = _without_422(app.openapi())
    app.openapi = lambda: document  # type: ignore[method-assign]
    return app


def _without_422(document: dict[str, Any]) -> dict[str, Any]:
    """The description without the answer that FastAPI adds to every route: a body that does not fit is a 400 here."""
    for methods in document["paths"].values():
        for route in methods.values():
            route["responses"].pop("422", None)
    for name in ("HTTPValidationError", "ValidationError"):
        document["components"]["schemas"].pop(name, None)
    return document


def guarded(app: FastAPI, access: Access, log: Log, metrics: Metrics) -> ASGIApp:
    """The application as it is served."""
    return Guard(app, access, log, metrics)


def _answer(refusal: Refusal) -> JSONResponse:
    return JSONResponse(error_object(refusal), status_code=refusal.status, headers=dict(refusal.headers))


async def _on_refused(http: HttpRequest, error: Exception) -> Response:
    assert isinstance(error, Refused)
    note_refusal(http, error.refusal)
    return _answer(error.refusal)


async def _on_invalid(http: HttpRequest, error: Exception) -> Response:
    """A body that does not fit its fields. FastAPI puts `body` before each place."""
    assert isinstance(error, RequestValidationError)
    refusal = refusal_of(details_of(error.errors(), outside=1), error.body)
    note_refusal(http, refusal)
    return _answer(refusal)


async def _on_http(http: HttpRequest, error: Exception) -> Response:
    """What Starlette itself refuses: paths and methods."""
    assert isinstance(error, HTTPException)
    method = http.method
    said = {
        404: ("no_such_route", "there is no such path", "GET /openapi.json lists the paths"),
        405: ("no_such_method", f"the path takes no {method}", "GET /openapi.json lists the methods of each path"),
    }
    code, message, fix = said.get(error.status_code, ("bad_request", "the request is malformed", "correct the request"))
    status = error.status_code if error.status_code in TYPES else 400
    headers = dict(error.headers or {})
    return _answer(Refusal(status=status, code=code, message=message, fix=fix, headers=headers))


async def _on_failure(_: HttpRequest, error: Exception) -> Response:
    """A bug. The guard logs it; the client learns that it happened."""
    message = "the server failed on this request"
    return _answer(Refusal(status=500, code="internal_error", message=message, fix=FAILED))
