"""GET /v1/models, /health, /metrics and /forward: what is served, whether it is well, how much it does, what runs."""

from fastapi import APIRouter
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response

from circuit_exec.server.answers import HealthAnswer, ModelItem, ModelsAnswer
from circuit_exec.server.forward import ForwardAnswer, LaunchesAnswer, forward_of, launches_of
from circuit_exec.server.metrics import CONTENT_TYPE, Metrics
from circuit_exec.server.routing import served_of
from circuit_exec.server.sampling import check_model
from circuit_exec.server.served import Served

router = APIRouter()


@router.get("/v1/models")
async def models(http: HttpRequest) -> ModelsAnswer:
    """The served model, as a list."""
    return ModelsAnswer(data=[_item(served_of(http))])


@router.get("/v1/models/{model}")
async def model(model: str, http: HttpRequest) -> ModelItem:
    """The served model."""
    served = served_of(http)
    check_model(served, model)
    return _item(served)


@router.get("/health", response_model=HealthAnswer, responses={503: {"model": HealthAnswer}})
async def health(http: HttpRequest) -> Response:
    """200 while requests are taken, 503 once the server is ending."""
    draining = bool(http.app.state.draining)
    answer = HealthAnswer(status="draining" if draining else "ok")
    return JSONResponse(answer.model_dump(), status_code=503 if draining else 200)


@router.get("/metrics", response_class=Response, responses={200: {"content": {CONTENT_TYPE: {}}}})
async def metrics(http: HttpRequest) -> Response:
    """For Prometheus."""
    found: Metrics = http.app.state.metrics
    return Response(found.page(), headers={"Content-Type": CONTENT_TYPE})


@router.get("/forward")
async def forward(http: HttpRequest) -> ForwardAnswer:
    """What runs: the class, the plans with their digests, their launches, the certificate, and what is done now."""
    return forward_of(served_of(http))


@router.get("/forward/launches")
async def launches(http: HttpRequest) -> LaunchesAnswer:
    """Every launch that makes the logits of one token."""
    return launches_of(served_of(http))


def _item(served: Served) -> ModelItem:
    most = served.options.context
    return ModelItem(id=served.options.name, created=served.options.created, max_model_len=most)
