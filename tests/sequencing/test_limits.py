import re

import msgspec
import pytest

from app.gates.scene import Bounds
from app.sequencing.limits import DECIDING_NOTHING, limits_digest
from app.sequencing.store import bounds_of
from app.settings import Settings


def test_the_same_limits_have_the_same_digest_whatever_else_differs():
    here, there = Settings(journal="memory:"), Settings(journal="sqlite:x.db", port=1, watchers_max=7)

    assert limits_digest(here) == limits_digest(there)
    assert re.fullmatch("[0-9a-f]{16}", limits_digest(here))


@pytest.mark.parametrize("bound", Bounds.__struct_fields__)
def test_another_limit_that_decides_is_another_digest(bound: str, monkeypatch: pytest.MonkeyPatch):
    settings = Settings(journal="memory:")
    bounds = bounds_of(settings)
    before = limits_digest(settings)
    another = msgspec.structs.replace(bounds, **{bound: getattr(bounds, bound) + 1})

    monkeypatch.setattr("app.sequencing.limits.bounds_of", lambda _: another)

    assert (limits_digest(settings) == before) is (bound in DECIDING_NOTHING)
