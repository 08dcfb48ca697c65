"""A scene that is closed while others ask: its history ends with it, whatever shares its moment."""

from app.gates.lives import CloseScene, Spawn
from app.journal.memory import MemoryJournal
from app.journal.port import START
from tests.support.sequenced import RUN, SPAWN, Node, words


async def test_nothing_of_a_closed_scene_stays_although_a_spawn_waited_behind_it():
    journal = MemoryJournal()
    node = Node(journal)
    await node.ask(SPAWN)
    replies = node.put(RUN), node.put(CloseScene(), who=None), node.put(Spawn())

    while node.sequencer.mailbox.has_waiting:
        await node.sequencer.turn()

    assert [words(reply.result()) for reply in replies] == [["granted"], ["closed"], ["spawned"]]
    kept = await journal.read("room", after=START, limit=10)
    assert [(entry.first, entry.last) for entry in kept] == [(4, 4)]
