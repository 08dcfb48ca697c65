import json
from collections import Counter

import pytest

from app.replay.trace import BeginLine, CompleteLine, ParametersLine, TraceError, counted, read_lines, read_trace
from tests.support.recorded import NAMES, TRACES

META = (
    '{"op":"meta","t":0,"tick":0,"dt":0,"character":"","layer":"","source":"recorder",'
    '"engine":"e","version":"1","scenario":"s"'
)
OPENING = META + "}"
BEGIN = (
    '{"op":"begin","t":0,"tick":1,"dt":0.1,"character":"a","layer":"base","source":"gameplay",'
    '"handle":"h1","target":"run","from":"idle","duration":0.2,"interrupts":null,"interrupt_policy":"stop"}'
)


def written(tmp_path, *lines):
    path = tmp_path / "made.jsonl"
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def closing(**counts):
    return META + f',"counts":{json.dumps(counts)}' + "}"


def test_there_are_eight_recorded_traces():
    assert NAMES == (
        "godot3-crowd-50x20s",
        "godot3-graph-race",
        "godot3-hit-interrupt",
        "godot3-walk-footsteps-irregular",
        "panda3d-crowd-50x20s",
        "panda3d-graph-race",
        "panda3d-hit-interrupt",
        "panda3d-walk-footsteps-irregular",
    )


@pytest.mark.parametrize("name", NAMES)
def test_every_recorded_line_is_typed_and_the_counts_are_those_the_recorder_closed_with(name):
    texts = (TRACES / f"{name}.jsonl").read_text().splitlines()

    trace = read_trace(TRACES / f"{name}.jsonl")

    assert len(trace.lines) == len(texts)
    assert counted(trace.lines[:-1]) == json.loads(texts[-1])["counts"]
    assert counted(trace.lines) == Counter(json.loads(text)["op"] for text in texts)


def test_a_line_keeps_what_was_recorded(tmp_path):
    [begin] = read_lines(written(tmp_path, BEGIN))

    assert isinstance(begin, BeginLine)
    assert (begin.handle, begin.target, begin.believed, begin.tick) == ("h1", "run", "idle", 1)


def test_values_stay_as_recorded_doubled_names_and_texts_of_nan_included(tmp_path):
    line = BEGIN.partition(',"handle"')[0].replace('"begin"', '"commit_parameters"')

    [parameters] = read_lines(
        written(tmp_path, line + ',"values":[["Speed","NaN"],["Speed",1],["Up",true],["Turn",-0.5]]}')
    )

    assert isinstance(parameters, ParametersLine)
    assert parameters.values == [("Speed", "NaN"), ("Speed", 1), ("Up", True), ("Turn", -0.5)]


@pytest.mark.parametrize("handle", ['"none"', "null"])
def test_a_completion_may_not_say_of_which_request(tmp_path, handle):
    line = BEGIN.partition(',"handle"')[0].replace('"begin"', '"complete"')

    [complete] = read_lines(written(tmp_path, line + f',"handle":{handle},"target":"run"' + "}"))

    assert isinstance(complete, CompleteLine)
    assert complete.request is None


def test_a_trace_names_its_engine(tmp_path):
    trace = read_trace(written(tmp_path, OPENING, BEGIN, closing(meta=1, begin=1)))

    assert (trace.name, trace.engine, trace.version, trace.scenario) == ("made", "e", "1", "s")


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ((), "starts with a `meta` line"),
        ((BEGIN,), "starts with a `meta` line"),
        ((OPENING, BEGIN), "was cut off"),
        ((OPENING, closing(meta=1, begin=2)), "the recorder wrote 2 lines of `begin`, the file holds 0"),
        ((OPENING, BEGIN, closing(meta=1)), "the recorder wrote 0 lines of `begin`, the file holds 1"),
        ((OPENING, "not JSON", closing(meta=1)), "line 2: not a line of a trace"),
        ((OPENING, BEGIN.replace('"begin"', '"jump"'), closing(meta=1)), "line 2: not a line of a trace"),
        ((OPENING, BEGIN.replace('"tick":1', '"tick":-nan'), closing(meta=1)), "line 2: not a line of a trace"),
    ],
)
def test_a_file_that_is_no_whole_trace_is_refused_with_what_is_wrong(tmp_path, lines, said):
    with pytest.raises(TraceError, match=said):
        read_trace(written(tmp_path, *lines))


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(TraceError, match=r"absent\.jsonl: No such file"):
        read_trace(tmp_path / "absent.jsonl")
