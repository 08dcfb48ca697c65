"""A disk that can be told to be full, to fail its syncs, or to stop in the middle of one."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count

import apsw

_numbers = count(1)


class Disk(apsw.VFS):
    """Passes everything on to the real disk, unless it is told to fail. Any thread may use and tell it.

    `fail_write` and `fail_sync` are asked with the file's path before each write and sync, and raise to make it fail.
    `wrote` and `synced` are told of each one that did not fail, a write with the place in the file where it starts.
    """

    def __init__(self) -> None:
        self.name = f"disk-{next(_numbers)}"
        super().__init__(self.name, "")
        self.fail_write: Callable[[str], None] = lambda path: None
        self.fail_sync: Callable[[str], None] = lambda path: None
        self.wrote: Callable[[str, int], None] = lambda path, offset: None
        self.synced: Callable[[str], None] = lambda path: None
        self.syncs: list[str] = []
        self.opened: list[str] = []

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> "_File":  # noqa: N802 - SQLite's name
        """Open a file that asks this disk before it writes or syncs."""
        path = name.filename() if isinstance(name, apsw.URIFilename) else name or ""
        self.opened.append(path)
        return _File(self, name, path, flags)

    def is_full(self, path: str) -> None:
        """Fail as a full disk does; for `fail_write`."""
        raise apsw.FullError(f"no room for {path}")

    def is_broken(self, path: str) -> None:
        """Fail as a broken disk does; for `fail_write` and `fail_sync`."""
        raise apsw.IOError(f"cannot reach {path}")

    def heal(self) -> None:
        """Fail no more."""
        self.fail_write = self.fail_sync = lambda path: None

    @contextmanager
    def held(self, then: Callable[[str], None] = lambda path: None) -> Iterator[threading.Event]:
        """Let the next sync of a log wait until the block ends, and succeed; the event is set once it is waiting.

        The syncs after it are as `then` says.
        """
        reached, released = threading.Event(), threading.Event()

        def wait(path: str) -> None:
            if path.endswith("-wal"):
                reached.set()
                released.wait()

        self.fail_sync = wait
        try:
            yield reached
        finally:
            self.fail_sync = then
            released.set()


class _File(apsw.VFSFile):
    def __init__(self, disk: Disk, name: str | apsw.URIFilename | None, path: str, flags: list[int]) -> None:
        super().__init__("", name, flags)
        self._disk = disk
        self._path = path

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802 - SQLite's name
        """Write, if the disk does."""
        self._disk.fail_write(self._path)
        super().xWrite(data, offset)
        self._disk.wrote(self._path, offset)

    def xSync(self, flags: int) -> None:  # noqa: N802 - SQLite's name
        """Sync, if the disk does."""
        self._disk.syncs.append(self._path)
        self._disk.fail_sync(self._path)
        super().xSync(flags)
        self._disk.synced(self._path)
