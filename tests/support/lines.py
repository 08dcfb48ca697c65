"""What the command line tells: one line."""


def is_one_line(text: str) -> bool:
    """Say whether a text is one told line, ended by a full stop."""
    return text.startswith("posegate: ") and text.count("\n") == 1 and text.endswith(".\n")
