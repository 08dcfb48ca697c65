import json

from tests.support.lines import is_one_line


def test_the_openapi_document_is_the_same_each_time(call):
    first, second = call("openapi"), call("openapi")

    assert first == second
    assert first[0] == 0
    assert json.loads(first[1])["openapi"].startswith("3.1")
    assert first[1].endswith("}\n")


def test_the_openapi_document_is_written_and_checked(call, tmp_path):
    path = tmp_path / "v1.json"

    assert call("openapi", "--write", path) == (0, "", "")
    assert call("openapi", "--check", path) == (0, "", "")
    assert path.read_text() == call("openapi")[1]


def test_a_document_that_drifted_fails_with_what_to_do(call, tmp_path):
    path = tmp_path / "v1.json"
    path.write_text("{}\n")

    code, _, told = call("openapi", "--check", path)

    assert code == 1
    assert f"posegate openapi --write {path}" in told
    assert is_one_line(told)


def test_the_document_of_the_channel_is_written_and_checked(call, tmp_path):
    path = tmp_path / "channel.json"

    assert call("openapi", "--channel", "--write", path) == (0, "", "")
    assert call("openapi", "--channel", "--check", path) == (0, "", "")
    assert json.loads(path.read_text())["asyncapi"] == "3.0.0"
    path.write_text("{}\n")
    assert f"posegate openapi --channel --write {path}" in call("openapi", "--channel", "--check", path)[2]
