"""One fuzzer: the service's code is instrumented as it is imported, and one target is given inputs until time is up.

    python -m tests.fuzz.fuzzer TARGET [libFuzzer's options and folders]

Half of the inputs are made by changing bytes, the other half by changing the JSON or msgpack that the bytes are.
"""

import json
import random
import sys

import atheris
import msgspec

STRUCTURED_OF_10 = 5


def main() -> None:
    """Fuzz the named target; libFuzzer ends the process."""
    with atheris.instrument_imports(include=["app"]):
        from tests.fuzz.targets import TARGETS  # noqa: PLC0415  # so that it is instrumented
    from tests.fuzz.mutating import mutated  # noqa: PLC0415
    from tests.fuzz.seeds import words  # noqa: PLC0415

    target = sys.argv[1]
    run, known = TARGETS[target], [*words()]

    def one(data: bytes) -> None:
        if data:
            run(data)

    def changed(data: bytes, size_max: int, seed: int) -> bytes:
        chance = random.Random(seed)
        if len(data) > 1 and chance.randrange(10) < STRUCTURED_OF_10:
            try:
                if target == "codec":
                    value = msgspec.msgpack.decode(data[1:], strict=False)
                    made = msgspec.msgpack.encode(mutated(value, chance, known))
                else:
                    made = json.dumps(mutated(json.loads(data[1:]), chance, known)).encode()
            except (ValueError, TypeError, OverflowError, RecursionError):
                pass
            else:
                if len(made) < size_max:
                    return data[:1] + made
        return bytes(atheris.Mutate(data, size_max))

    atheris.Setup([sys.argv[0], *sys.argv[2:]], one, custom_mutator=changed)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
