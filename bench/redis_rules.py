"""The same rules in Redis, as Lua scripts: the rules only, or the same work with decision and answer kept."""

import hashlib
from typing import Any

import hiredis

from bench.load import Caller, Counting, Reading, connected
from bench.mix import BATCH_COMMANDS, SCENE, Mix
from bench.servers import Address

KEPT_MS = 600_000
"""How long an answer is kept under its key, as posegate keeps it."""

_BEGIN = """
local hash, layer = KEYS[1], ARGV[1]
local now = redis.call('HMGET', hash, layer .. ':state', layer .. ':generation', layer .. ':epoch')
local generation = tonumber(now[2] or '0') + 1
local token = (now[3] or '1') .. ':' .. generation .. ':' .. (now[1] or 'Idle') .. ':' .. ARGV[2]
redis.call('HSET', hash, layer .. ':generation', generation, layer .. ':pending', token)
return token"""

_COMPLETE = """
local hash, layer = KEYS[1], ARGV[1]
if redis.call('HGET', hash, layer .. ':pending') ~= ARGV[2] then return 'stale_generation' end
redis.call('HSET', hash, layer .. ':state', ARGV[3])
redis.call('HDEL', hash, layer .. ':pending')
return 'committed'"""

_PARAMETERS = """
for i = 2, #ARGV, 2 do
  local value = tonumber(ARGV[i])
  if value == nil or value ~= value or value > 3.4e38 or value < -3.4e38 then return 'non_finite_value' end
end
redis.call('HSET', KEYS[1], unpack(ARGV))
return redis.call('HINCRBY', KEYS[1], 'version', 1)"""

_ENQUEUE = """
local hash, loop = KEYS[1], ARGV[1]
local committed = redis.call('HGET', hash, 'loop')
if committed and tonumber(loop) < tonumber(committed) then return 'late_loop' end
if redis.call('HSETNX', hash, loop .. ':' .. ARGV[2] .. ':' .. ARGV[3], 'w') == 0 then return 'duplicate' end
return 'accepted'"""

_COMMIT_LOOP = """
local hash, loop = KEYS[1], tonumber(ARGV[1])
local committed = redis.call('HGET', hash, 'loop')
if committed and loop < tonumber(committed) then return {'loop_rollback'} end
local all, delivered, forgotten, kept = redis.call('HGETALL', hash), {}, {}, {'loop', ARGV[1]}
for i = 1, #all, 2 do
  local key = all[i]
  local colon = string.find(key, ':', 1, true)
  local its = colon and tonumber(string.sub(key, 1, colon - 1))
  if its and its <= loop then
    if all[i + 1] == 'w' then delivered[#delivered + 1] = key end
    if its < loop then forgotten[#forgotten + 1] = key else kept[#kept + 1] = key kept[#kept + 1] = 'd' end
  end
end
if #forgotten > 0 then redis.call('HDEL', hash, unpack(forgotten)) end
redis.call('HSET', hash, unpack(kept))
return delivered"""

RULES = {
    "begin": _BEGIN,
    "complete": _COMPLETE,
    "commit-parameters": _PARAMETERS,
    "enqueue": _ENQUEUE,
    "commit-loop": _COMMIT_LOOP,
}
"""Rules only: whole tokens compared, doubles and late loops refused, what waits delivered, values finite."""

_KEEPING = """
local kept = redis.call('GET', KEYS[3])
if kept then return kept end
local function decided() %s
end
local answer = decided()
if type(answer) ~= 'string' then answer = cjson.encode(answer) end
redis.call('XADD', KEYS[2], '*', 'who', KEYS[1], 'command', '%s', 'asked', table.concat(ARGV, ' '), 'answer', answer)
redis.call('SET', KEYS[3], answer, 'PX', %d)
return answer"""

SAME_WORK = {name: _KEEPING % (rule, name, KEPT_MS) for name, rule in RULES.items()}
"""Same work: besides, the decision is appended to the scene's stream and the answer is kept under the command's key."""

SHA = {
    (script is SAME_WORK, name): hashlib.sha1(text.encode()).hexdigest()  # how Redis names a script
    for script in (RULES, SAME_WORK)
    for name, text in script.items()
}


def resp(*words: str | bytes | int | float) -> bytes:
    """Give one command as it goes over the wire."""
    said = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(said) + b"".join([b"$%d\r\n%b\r\n" % (len(word), word) for word in said])


def call(command: dict[str, Any]) -> tuple[str | int | float, ...]:
    """Give a command of the mix as the EVALSHA that decides it; one with a key does the same work."""
    name, character = command["command"], command["character"]
    asked: tuple[str | int | float, ...]
    match name:
        case "begin":
            hash_key, asked = character, (command["layer"], command["target"])
        case "complete":
            token = command["token"]
            hash_key, asked = character, ("base", token, token.rpartition(":")[2])
        case "commit-parameters":
            hash_key = f"{character}:p"
            asked = tuple(word for value in command["values"] for word in (value["name"], value["value"]))
        case "enqueue":
            hash_key = f"{character}:{command['clip_instance']}"
            asked = (command["loop"], command["frame"], command["kind"])
        case _:
            hash_key, asked = f"{character}:{command['clip_instance']}", (command["loop"],)
    key = command.get("key")
    if key is None:
        return ("EVALSHA", SHA[False, name], 1, hash_key, *asked)
    return ("EVALSHA", SHA[True, name], 3, hash_key, f"{SCENE}:decisions", f"key:{key}", *asked)


def granted(commands: list[dict[str, Any]], answers: list[Any]) -> dict[str, str]:
    """Give the newest token of each character."""
    pairs = zip(commands, answers, strict=True)
    return {
        command["character"]: answer.decode() if isinstance(answer, bytes) else answer
        for command, answer in pairs
        if command["command"] == "begin"
    }


class RespReading:
    """Reads the answers of one connection, so many at a time.

    Raises:
        RuntimeError: One of them is an error.
    """

    def __init__(self, answers: int) -> None:
        self._answers = answers
        self._reader = hiredis.Reader()
        self._whole: list[Any] = []

    def __call__(self, data: bytes) -> list[Any] | None:
        """Take the next bytes; give the answers when all of them are whole."""
        reader, whole = self._reader, self._whole
        reader.feed(data)
        while (answer := reader.gets()) is not False:
            if isinstance(answer, hiredis.ReplyError):
                raise RuntimeError(f"Redis says: {answer}")
            whole.append(answer)
        if len(whole) < self._answers:
            return None
        self._whole = []
        return whole


def counting() -> Counting:
    """Give what counts the answers of one connection."""
    reading = RespReading(1)

    def count(data: bytes) -> int:
        return len(reading(data) or ())

    return count


class RedisMix:
    """The mix as pipelines of EVALSHA: with keys the same work, without them the rules only."""

    def __init__(self, *, same_work: bool) -> None:
        self._mix = Mix(keyed=same_work)
        self._asked: dict[int, list[dict[str, Any]]] = {}

    def reading(self) -> Reading:
        """Give what reads the answers of one connection."""
        return RespReading(BATCH_COMMANDS)

    def calls(self, number: int, answers: list[Any] | None) -> list[tuple[Any, ...]]:
        """Give a connection's next pipeline as calls; what it may complete it takes from the last answers."""
        tokens = {} if answers is None else granted(self._asked[number], answers)
        commands = self._asked[number] = self._mix.commands(number, tokens)
        return [call(command) for command in commands]

    def asked(self, number: int) -> list[dict[str, Any]]:
        """Give the commands of a connection's last pipeline."""
        return self._asked[number]

    def following(self, number: int, answer: Any) -> bytes:
        """Give the bytes of a connection's next pipeline."""
        return b"".join([resp(*words) for words in self.calls(number, answer)])


async def scripted(address: Address) -> None:
    """Give Redis all the scripts."""
    texts = [*RULES.values(), *SAME_WORK.values()]
    caller = await connected(address.host, address.port, Caller(RespReading(len(texts))))
    hashes = await caller.ask(b"".join([resp("SCRIPT", "LOAD", text) for text in texts]))
    assert {each.decode() for each in hashes} == set(SHA.values()), "the scripts are named by what they say"
    caller.close()
