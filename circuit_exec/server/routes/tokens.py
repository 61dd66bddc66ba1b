"""POST /tokenize and /detokenize."""

import asyncio

from fastapi import APIRouter
from starlette.requests import Request as HttpRequest

from circuit_exec.server.answers import DetokenizeAnswer, TokenizeAnswer
from circuit_exec.server.errors import refused
from circuit_exec.server.fields.other import DetokenizeFields, TokenizeFields
from circuit_exec.server.prompts import chat_ids, check_ids, text_ids
from circuit_exec.server.routing import BodyRoute, served_of
from circuit_exec.server.sampling import check_model
from circuit_exec.server.served import Served, shown, token_bytes
from circuit_exec.text.tokenizer import decode, encode

router = APIRouter(route_class=BodyRoute)


@router.post("/tokenize")
async def tokenize(fields: TokenizeFields, http: HttpRequest) -> TokenizeAnswer:
    """The ids of a text, or of a conversation as the chat template writes it."""
    served = served_of(http)
    ids = await asyncio.to_thread(_ids, served, fields)
    texts = [shown(token_bytes(served.tokenizer, id)) for id in ids] if fields.return_token_strs else None
    most = served.options.context
    return TokenizeAnswer(count=len(ids), max_model_len=most, tokens=list(ids), token_strs=texts)


@router.post("/detokenize")
async def detokenize(fields: DetokenizeFields, http: HttpRequest) -> DetokenizeAnswer:
    """The text of ids, without control tokens."""
    served = served_of(http)
    if fields.model is not None:
        check_model(served, fields.model)
    ids = check_ids(served, fields.tokens, "tokens")
    return DetokenizeAnswer(prompt=decode(served.tokenizer, ids))


def _ids(served: Served, fields: TokenizeFields) -> tuple[int, ...]:
    if fields.model is not None:
        check_model(served, fields.model)
    if (fields.prompt is None) == (fields.messages is None):
        raise refused("a text is given by one of prompt and messages", "give one of the two", param="prompt")
    if fields.messages is not None:
        if fields.add_special_tokens is not None:
            message = "the chat template writes the beginning of a conversation"
            raise refused(message, "leave add_special_tokens out", param="add_special_tokens")
        return chat_ids(served, fields.messages, fields.tools, fields.chat_template_kwargs)
    assert fields.prompt is not None
    for name, value in (("tools", fields.tools), ("chat_template_kwargs", fields.chat_template_kwargs)):
        if value is not None:
            raise refused(f"{name} is for the chat template", "leave it out, or give messages", param=name)
    if fields.add_special_tokens is False:
        return tuple(encode(served.tokenizer, fields.prompt))
    return text_ids(served, fields.prompt, "prompt")
