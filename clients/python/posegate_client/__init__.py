"""posegate_client: asks posegate, the one place that owns the right to commit animation state; async and sync, typed.

A refusal is an answer. What no gate decided is raised as a `PosegateError`, or stands as a `Problem` among answers.
"""

from posegate_client import answers, commands, rigs, values, views
from posegate_client.answers import Accepted, Answer, Refused
from posegate_client.async_channel import AsyncChannel, AsyncPending
from posegate_client.async_watch import AsyncWatch
from posegate_client.asynchronous import AsyncCharacter, AsyncPosegate, AsyncScene
from posegate_client.command import Command
from posegate_client.commands import Request
from posegate_client.exchange import AppliedRequests, ChannelItem, Missed
from posegate_client.feed import FeedItem, Reset, SceneClosed, SceneSnapshot, Turn, Wanted
from posegate_client.limits import Limits
from posegate_client.problems import (
    ChannelEnded,
    Conflicting,
    Forbidden,
    Invalid,
    NotPosegate,
    NotThere,
    PosegateError,
    Problem,
    ProblemError,
    Unanswered,
    Unauthenticated,
    Unavailable,
)
from posegate_client.sync_channel import Channel, Pending
from posegate_client.sync_watch import Watch
from posegate_client.synchronous import Character, Posegate, Scene
from posegate_client.values import Event, FromAnswer, Token

__all__ = [
    "Accepted",
    "Answer",
    "AppliedRequests",
    "AsyncChannel",
    "AsyncCharacter",
    "AsyncPending",
    "AsyncPosegate",
    "AsyncScene",
    "AsyncWatch",
    "Channel",
    "ChannelEnded",
    "ChannelItem",
    "Character",
    "Command",
    "Conflicting",
    "Event",
    "FeedItem",
    "Forbidden",
    "FromAnswer",
    "Invalid",
    "Limits",
    "Missed",
    "NotPosegate",
    "NotThere",
    "Pending",
    "Posegate",
    "PosegateError",
    "Problem",
    "ProblemError",
    "Refused",
    "Request",
    "Reset",
    "Scene",
    "SceneClosed",
    "SceneSnapshot",
    "Token",
    "Turn",
    "Unanswered",
    "Unauthenticated",
    "Unavailable",
    "Wanted",
    "Watch",
    "answers",
    "commands",
    "rigs",
    "values",
    "views",
]
