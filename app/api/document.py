"""The OpenAPI document: the routes of the service, and the schemas of the structs and models they speak of."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from app.api.bodies import DespawnBody, RigBody, SpawnBody
from app.api.contract import PROBLEM, envelope, struct_schemas, with_member_names
from app.api.problems import ProblemBody
from app.api.security import DOORS, Door
from app.api.sessions import SessionBody

_BEARER = {
    "type": "http",
    "scheme": "bearer",
    "description": "An API key, or a session token that a game server minted. A service without keys takes neither.",
}


def document(app: FastAPI) -> dict[str, Any]:
    """Give the OpenAPI document of a service: its routes, and the schemas of the structs and models they speak of."""
    if app.openapi_schema is not None:
        return app.openapi_schema
    made = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
    schemas = made.setdefault("components", {}).setdefault("schemas", {})
    schemas.update(struct_schemas()[1])
    schemas.update({"Accepted": envelope(True), "RefusedEnvelope": envelope(False)})
    for model in (ProblemBody, RigBody, SpawnBody, DespawnBody, SessionBody):
        schema = with_member_names(model.model_json_schema(ref_template="#/components/schemas/{model}"))
        schemas.update(schema.pop("$defs", {}))
        schemas[schema["title"]] = schema
    for path in ("HTTPValidationError", "ValidationError"):
        schemas.pop(path, None)
    made["components"]["securitySchemes"] = {"bearer": _BEARER}
    for path, operations in made["paths"].items():
        for method, operation in operations.items():
            if DOORS[f"{method.upper()} {path}"] is not Door.PUBLIC:
                # The empty one stands for a service without keys, which listens on the loopback address only.
                operation["security"] = [{"bearer": []}, {}]
            operation["responses"].pop("422", None)
            operation["responses"]["default"] = PROBLEM
    app.openapi_schema = made
    return made
