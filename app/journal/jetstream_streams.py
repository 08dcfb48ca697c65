"""The three streams of a journal: what they are called, how they are made, and what they must be like.

`NAME-entries` holds entries, `NAME-parts` the pieces of checkpoints, `NAME-heads` what is newest of each scene, and
the secret. They are made when they are missing, by as many nodes at once as like; what is there is never changed.
"""

import asyncio
import os

from app.journal.jetstream_api import Conflict, Jetstream
from app.journal.nats_address import Address
from app.journal.port import CommitUnknown, JournalDamaged, JournalUnavailable
from app.telemetry.log import log

SECRET_BYTES = 32
DUPLICATE_WINDOW_NS = 120 * 1_000_000_000
PAUSE_S = 0.25

LOOKS_MAX = 8
"""How often it is looked whether a part of a journal is gone, PAUSE_S apart: one being made is not whole yet."""

NO_SCENE = "="
"""A token that stands for no scene: names begin with a letter or a digit."""

FORGETS_NOTHING = {
    "retention": "limits",
    "discard": "new",
    "max_age": 0,
    "max_msgs": -1,
    "max_msg_size": -1,
    "sealed": False,
    "deny_purge": False,
    "storage": "file",
    "allow_direct": True,
}
"""What every stream must be like: nothing leaves it unless the journal says so, and any copy may be asked."""


RESTORE = "restore the streams from a back-up, all of them from the same"


class Streams:
    """The names of a journal's streams and subjects."""

    def __init__(self, name: str) -> None:
        self.entries = f"{name}-entries"
        self.pieces = f"{name}-parts"
        self.heads = f"{name}-heads"
        self.all_entries = f"{name}.e.*"
        self.all_heads = f"{name}.h.*"
        self.secret = f"{name}.meta"
        self._name = name

    def entry(self, token: str) -> str:
        """Give the subject of a scene's entries."""
        return f"{self._name}.e.{token}"

    def piece(self, token: str) -> str:
        """Give the subject of the pieces of a scene's checkpoints."""
        return f"{self._name}.p.{token}"

    def head(self, token: str) -> str:
        """Give the subject of a scene's head."""
        return f"{self._name}.h.{token}"

    def hint(self, token: str) -> str:
        """Give the subject on which JetStream says that a scene has a further entry, once it is stored."""
        return f"{self._name}.r.{token}"

    def token(self, subject: str) -> str:
        """Give the scene's token in a subject of an entry, a piece or a head."""
        return subject.rpartition(".")[2]

    def configurations(self, replicas: int) -> dict[str, dict[str, object]]:
        """Give each stream's configuration as it is made."""
        alike: dict[str, object] = {
            **FORGETS_NOTHING,
            "num_replicas": replicas,
            "duplicate_window": DUPLICATE_WINDOW_NS,
        }
        hints = {"src": self.all_entries, "dest": f"{self._name}.r.{{{{wildcard(1)}}}}", "headers_only": True}
        return {
            self.entries: {
                **alike,
                "subjects": [self.all_entries],
                "max_msgs_per_subject": -1,
                "republish": hints,
            },
            self.pieces: {**alike, "subjects": [f"{self._name}.p.*"], "max_msgs_per_subject": -1},
            self.heads: {**alike, "subjects": [self.all_heads, self.secret], "max_msgs_per_subject": 1},
        }


async def prepare(jetstream: Jetstream, streams: Streams, address: Address, *, until: float, read_only: bool) -> bytes:
    """See that the streams are there and as they must be, until the loop's time `until`; give the journal's secret.

    Raises:
        JournalUnavailable: There is no journal to be read, or a stream that is there could lose what it is given, or
            the servers did not do it in time.
        JournalDamaged: The secret is none, or a part of the journal is gone. Nothing was made in its place.
    """
    while True:
        try:
            await _require_whole(jetstream, streams)
            for stream, config in streams.configurations(address.replicas).items():
                await _prepare(jetstream, stream, config, read_only=read_only)
            secret = await _secret(jetstream, streams, read_only=read_only)
            if not read_only:
                for subject in (streams.entry(NO_SCENE), streams.piece(NO_SCENE), streams.head(NO_SCENE)):
                    await _require_served(jetstream, subject)
            return secret
        except Unfit:
            raise
        except (JournalUnavailable, CommitUnknown, Conflict) as error:
            # A cluster that is starting has no leader yet, or too few servers for the copies that are wanted.
            if asyncio.get_running_loop().time() > until:
                raise JournalUnavailable(str(error)) from None
            await asyncio.sleep(PAUSE_S)


class Unfit(JournalUnavailable):
    """A stream is missing, or is such that waiting will not mend it. Nothing was changed."""


async def _require_whole(jetstream: Jetstream, streams: Streams) -> None:
    """See that there is all of a journal or nothing of it, before what is missing is made anew and empty.

    The secret is stored when every stream is there, and before anything else is.
    """
    for look in range(LOOKS_MAX):
        if look:
            await asyncio.sleep(PAUSE_S)
        infos = {stream: await jetstream.info(stream) for stream in (streams.entries, streams.pieces, streams.heads)}
        secret = None if infos[streams.heads] is None else await jetstream.last(streams.heads, streams.secret)
        missing = [stream for stream, info in infos.items() if info is None]
        if not missing and secret is not None:
            return
        held = [stream for stream, info in infos.items() if info is not None and info.state.messages]
        if secret is None and not held:
            return
    if secret is None:
        raise JournalDamaged(f"{held[0]} holds messages, but the journal's secret is gone; {RESTORE}")
    raise JournalDamaged(f"there is a journal, but its stream {missing[0]} is gone; {RESTORE}")


async def _prepare(jetstream: Jetstream, stream: str, config: dict[str, object], *, read_only: bool) -> None:
    """Make one stream, or see that the one which is there will do."""
    found = await jetstream.info(stream)
    if found is None:
        if read_only:
            raise Unfit(f"there is no stream {stream}: no journal was made there")
        await jetstream.create(stream, config)
        found = await jetstream.info(stream)
        if found is None:
            raise JournalUnavailable(f"{stream} was made but is not there yet")
    for field, wanted in config.items():
        there = found.config.get(field, _absent(wanted))
        if field == "num_replicas":
            if there != wanted and not read_only:
                log.warning("stream-replicas-differ", stream=stream, wanted=wanted, there=there)
        elif field == "duplicate_window":
            continue
        elif field == "republish":
            _require_republished(stream, there, wanted)
        elif field == "max_msg_size" and isinstance(there, int) and there >= jetstream.wire.payload_bytes_max:
            continue
        elif there != wanted:
            raise Unfit(f"{stream} has {field} {there!r} where {wanted!r} is needed; mend the stream's configuration")


async def _require_served(jetstream: Jetstream, subject: str) -> None:
    """See that a stream takes what is published: it leads before every server has heard where.

    Raises:
        JournalUnavailable, CommitUnknown: It does not yet.
    """
    try:
        # Nothing was ever stored there, so nothing can lie behind a first message, and this stores nothing either.
        await jetstream.publish(subject, b"", after=1)
    except Conflict:
        return
    raise JournalUnavailable(f"{subject} took what it had to refuse")


def _require_republished(stream: str, there: object, wanted: object) -> None:
    """See that nodes are told of entries; what servers fill in besides is theirs."""
    if not isinstance(there, dict) or not isinstance(wanted, dict) or not wanted.items() <= there.items():
        raise Unfit(f"{stream} has republish {there!r} where {wanted!r} is needed; mend the stream's configuration")


def _absent(wanted: object) -> object:
    """Give what a field stands for that a server leaves out."""
    return type(wanted)() if isinstance(wanted, bool | int | str) else None


async def _secret(jetstream: Jetstream, streams: Streams, *, read_only: bool) -> bytes:
    """Give the journal's secret; of many nodes that make one, one wins and all read it."""
    found = await jetstream.last(streams.heads, streams.secret)
    if found is None:
        if read_only:
            raise Unfit(f"{streams.heads} holds no secret: no journal was made there")
        await jetstream.publish(streams.secret, os.urandom(SECRET_BYTES), after=0)
        found = await jetstream.last(streams.heads, streams.secret)
        if found is None:
            raise JournalUnavailable("the secret was stored but is not there yet")
    if len(found.payload) != SECRET_BYTES:
        raise JournalDamaged("the journal's secret is not one; restore the streams from a back-up")
    return found.payload
