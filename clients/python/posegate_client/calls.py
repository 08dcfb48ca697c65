"""Calls: every request that posegate takes, and how its answer is read; what is sent by whom does not matter here."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from posegate_client.answers import Answer, Applied
from posegate_client.call import Call, Reply
from posegate_client.command import Command
from posegate_client.problems import NotPosegate, Problem
from posegate_client.reading import Bytes, answer_of, applied_of, read
from posegate_client.rigs import Rig
from posegate_client.views import (
    CharactersPage,
    CharacterView,
    Decision,
    DeclaredRig,
    Delivery,
    HistoryPage,
    Info,
    Ready,
    ScenesPage,
    SceneView,
    Session,
    Snapshot,
    TickAnswers,
)

T = TypeVar("T")
AnswerT = TypeVar("AnswerT")

_IDENTIFIER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._~-]{0,127}")
_OF_SCENES = frozenset({"bundle", "tick"})
_LIVES = frozenset({"spawn", "despawn"})

encode = msgspec.json.encode


class _Answers(Struct, frozen=True):
    answers: list[Raw]


class _DecisionRow(Struct, frozen=True):
    sequence: int
    at: str
    character: str | None
    command: str
    asked: dict[str, Any]
    answer: Raw


class _Decisions(Struct, frozen=True):
    decisions: list[_DecisionRow]
    next: int | None = None


class _Deliveries(Struct, frozen=True):
    deliveries: tuple[Delivery, ...]


class _TickRows(Struct, frozen=True):
    tick: int
    answers: list[Raw]


def identifier(name: str) -> str:
    """Give a name that may stand in a path: of a scene, a character or a rig.

    Raises:
        ValueError: It may not.
    """
    if _IDENTIFIER.fullmatch(name) is None:
        raise ValueError(f"{name[:140]!r} is no identifier: 1 to 128 of A-Z a-z 0-9 . _ ~ -, a letter or digit first")
    return name


def scene_path(scene: str, *more: str) -> str:
    """Give a path below a scene."""
    return "/".join(("/v1/scenes", identifier(scene), *more))


def _character_path(scene: str, character: str, *more: str) -> str:
    return scene_path(scene, "characters", identifier(character), *more)


def _get(kind: type[T], path: str, **queries: Any) -> Call[T]:
    return Call("GET", path, lambda reply: read(reply.content, kind), queries)


def command(scene: str, asked: Command[AnswerT]) -> Call[AnswerT]:
    """Ask one command, with a key: its own or a new one. A spawn and a despawn go as a batch of one."""
    keyed = asked.keyed()
    if keyed.name in _LIVES:
        return _alone(scene, keyed)
    body = encode(keyed.fields)
    if keyed.name in _OF_SCENES:
        path = scene_path(scene, keyed.name)
    else:
        path = _character_path(scene, str(keyed.character), quote(keyed.name, safe="-"))
    headers = {"Idempotency-Key": f'"{keyed.key}"'}
    return Call("POST", path, _one_answer, headers=headers, body=body, commands=keyed)


def _one_answer(reply: Reply) -> Any:
    return answer_of(reply.content)


def _alone(scene: str, keyed: Command[AnswerT]) -> Call[AnswerT]:
    def first(reply: Reply) -> Any:
        [answer] = _answers(reply, 1)
        return answer

    path = scene_path(scene, "batch")
    return Call("POST", path, first, body=encode({"commands": [keyed.members()]}), commands=keyed)


def batch(scene: str, commands: Iterable[Command[Any]]) -> Call[tuple[Answer | Problem, ...]]:
    """Ask many, each decided on its own, in order. An answer stands at the place of its command, or a problem.

    It is asked again as long as nothing of it was decided: sent again, a command could come behind a later one.
    """
    keyed = tuple(each.keyed() for each in commands)

    def read_answers(reply: Reply) -> tuple[Answer | Problem, ...]:
        return _answers(reply, len(keyed))

    body = encode({"commands": [each.members() for each in keyed]})
    return Call("POST", scene_path(scene, "batch"), read_answers, body=body, left=_left, commands=keyed)


def _answers(reply: Reply, count: int) -> tuple[Answer | Problem, ...]:
    answers = tuple(map(answer_of, read(reply.content, _Answers).answers))
    if len(answers) != count:
        raise NotPosegate(f"{len(answers)} answers came to {count} commands")
    return answers


def _left(answers: tuple[Answer | Problem, ...]) -> Problem | None:
    problems = [each for each in answers if isinstance(each, Problem) and each.retryable]
    return problems[0] if problems and len(problems) == len(answers) else None


def declare_rig(scene: str, name: str, rig: Rig | Mapping[str, Any], *, key: str | None = None) -> Call[DeclaredRig]:
    """Declare or redeclare a rig of the scene; `Conflicting` while living characters use another of that name."""
    declared = Command[Any]("declare-rig", None, {"name": name, "rig": rig}, key).keyed()

    def read_rig(reply: Reply) -> DeclaredRig:
        return DeclaredRig(reply.status == 201, read(reply.content, Rig))

    return Call(
        "PUT",
        scene_path(scene, "rigs", identifier(name)),
        read_rig,
        headers={"Idempotency-Key": f'"{declared.key}"'},
        body=encode(rig),
        commands=declared,
    )


def close_scene(scene: str) -> Call[None]:
    """Close the scene for good. It has no key, so it is not sent again once it may have arrived."""
    return Call("DELETE", scene_path(scene), lambda reply: None, is_repeatable=False)


def mint_session(
    scene: str,
    sub: str,
    characters: Mapping[str, int],
    *,
    begin_layers: Iterable[str] = (),
    commands: Iterable[str] | None = None,
    ttl_s: int | None = None,
) -> Call[Session]:
    """Mint a session for a player's client: `characters` with their lives, what it may begin and send, how long."""
    body: dict[str, Any] = {"sub": sub, "characters": dict(characters), "begin_layers": list(begin_layers)}
    if commands is not None:
        body["commands"] = list(commands)
    if ttl_s is not None:
        body["ttl_s"] = ttl_s
    path = scene_path(scene, "sessions")
    return Call("POST", path, lambda reply: read(reply.content, Session), body=encode(body))


def info() -> Call[Info]:
    """Say what the service is, and its limits."""
    return _get(Info, "/v1/info")


def ready() -> Call[Ready]:
    """Say whether the service takes commands, and why not."""
    return Call("GET", "/readyz", lambda reply: read(reply.content, Ready), also=frozenset({503}))


def metrics() -> Call[str]:
    """Give what the service counts, in Prometheus' text format."""
    return Call("GET", "/metrics", lambda reply: reply.content.decode("utf-8", "replace"))


def scenes(*, cursor: str | None = None, limit: int | None = None) -> Call[ScenesPage]:
    """List the scenes that the caller sees, by name; `cursor` is the `next` of the page before."""
    return _get(ScenesPage, "/v1/scenes", cursor=cursor, limit=limit)


# What is read in a scene takes `min_sequence`, the sequence of an answer: shown is what was then, or later, whichever
# node is asked. A node that has not come so far is asked again.


def scene(name: str, *, min_sequence: int | None = None) -> Call[SceneView]:
    """Show one scene."""
    return _get(SceneView, scene_path(name), min_sequence=min_sequence)


def characters(
    scene: str, *, cursor: str | None = None, limit: int | None = None, min_sequence: int | None = None
) -> Call[CharactersPage]:
    """List a scene's living characters by id; `cursor` is the `next` of the page before."""
    path = scene_path(scene, "characters")
    return _get(CharactersPage, path, cursor=cursor, limit=limit, min_sequence=min_sequence)


def character(scene: str, name: str, *, min_sequence: int | None = None) -> Call[CharacterView]:
    """Show a whole character at one sequence."""
    return _get(CharacterView, _character_path(scene, name), min_sequence=min_sequence)


def parameters(
    scene: str, character: str, *, known: Snapshot | None = None, min_sequence: int | None = None
) -> Call[Snapshot]:
    """Show one snapshot of parameters; `known` again, unread, where it is still the present one."""

    def read_snapshot(reply: Reply) -> Snapshot:
        if known is not None and reply.status == 304:
            return known
        return replace(read(reply.content, Snapshot), etag=reply.headers.get("etag", ""))

    headers = {} if known is None or not known.etag else {"If-None-Match": known.etag}
    path = _character_path(scene, character, "parameters")
    also, queries = frozenset({304} if headers else ()), {"min_sequence": min_sequence}
    return Call("GET", path, read_snapshot, queries, headers=headers, also=also)


def deliveries(
    scene: str, character: str, *, after: int = 0, min_sequence: int | None = None
) -> Call[tuple[Delivery, ...]]:
    """Read kept deliveries again, ascending, so that a lost answer loses no event."""
    path, queries = _character_path(scene, character, "deliveries"), {"after": after, "min_sequence": min_sequence}
    return Call("GET", path, lambda reply: read(reply.content, _Deliveries).deliveries, queries)


def history(
    scene: str,
    *,
    after: int = 0,
    limit: int | None = None,
    character: str | None = None,
    layer: str | None = None,
    command: str | None = None,
    outcome: str | None = None,
    refused: bool = False,
    min_sequence: int | None = None,
) -> Call[HistoryPage]:
    """Read one page of decisions after a sequence, filtered; `next` of it is the `after` of the next one."""
    queries = {
        "after": after,
        "limit": limit,
        "character": character,
        "layer": layer,
        "command": command,
        "outcome": outcome,
        "refused": refused or None,
        "min_sequence": min_sequence,
    }
    return Call("GET", scene_path(scene, "history"), _history_page, queries)


def _history_page(reply: Reply) -> HistoryPage:
    decisions, following = decisions_of(reply.content)
    return HistoryPage(decisions, following)


def decisions_of(content: Bytes) -> tuple[tuple[Decision, ...], int | None]:
    """Read decisions as the history and the feed show them, and the sequence to go on after."""
    page = read(content, _Decisions)
    return tuple(
        Decision(row.sequence, row.at, row.character, row.command, row.asked, answer_of(row.answer))
        for row in page.decisions
    ), page.next


def tick_answers(
    scene: str, tick: int, *, source: str | None = None, min_sequence: int | None = None
) -> Call[TickAnswers]:
    """Read the answers of a sealed tick's requests again, all or one source's, tokens with their seals."""

    def read_answers(reply: Reply) -> TickAnswers:
        rows = read(reply.content, _TickRows)
        return TickAnswers(rows.tick, tuple[Applied, ...](map(applied_of, rows.answers)))

    path, queries = scene_path(scene, "ticks", str(tick), "answers"), {"source": source, "min_sequence": min_sequence}
    return Call("GET", path, read_answers, queries)
