"""The fields of each request, as pydantic models: what is sent is one of these, or is refused by the field's name."""
