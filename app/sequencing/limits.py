"""The limits that decide: nodes of one journal must have the same ones, and a digest of them tells whether they do."""

from hashlib import blake2b

import msgspec

from app.sequencing.store import bounds_of
from app.settings import Settings

DECIDING_NOTHING = frozenset({"hot_characters_max"})
"""The bounds of a scene that only say what is held in memory: nodes may differ in them."""

DIGEST_BYTES = 8


def limits_digest(settings: Settings) -> str:
    """Give 16 hexadecimal digits, the same wherever the limits are on which the state of a scene depends.

    The name of a limit counts as well as its number, so a version that has another limit gives another digest.
    """
    bounds = msgspec.structs.asdict(bounds_of(settings))
    deciding = {name: bound for name, bound in bounds.items() if name not in DECIDING_NOTHING}
    return blake2b(msgspec.json.encode(deciding, order="sorted"), digest_size=DIGEST_BYTES).hexdigest()
