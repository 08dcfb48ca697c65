"""The SQLite journal's file: how it is made, recognised, locked and opened."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import apsw

from app.journal.port import JournalDamaged, JournalUnavailable
from app.journal.sqlite_chain import Digests
from app.journal.sqlite_marks import Marks

FORMAT = 2
APPLICATION_ID = 0x706F7365
"""`pose`, in the file's header: tells a journal from any other SQLite database."""

PAGE_BYTES = 8192
"""Measured, see docs/decisions/0003-sqlite-journal.md. Only a new file takes it; an old one keeps its own."""

SQLITE_VERSION_MIN = (3, 51, 3)
SECRET_BYTES = 32
DAMAGE = (apsw.CorruptError, apsw.NotADBError, UnicodeDecodeError)
"""What reading raises when the file does not hold what SQLite wrote there; a name may not even be text any more."""

BUSY_TIMEOUT_MS = 1_000
"""How long a foreign lock (a backup, somebody's shell) is waited for before the call fails."""

_SCHEMA = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value NOT NULL) WITHOUT ROWID;

CREATE TABLE scenes (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    floor INTEGER NOT NULL,         -- every entry up to here was trimmed, the last of them with
    floor_last INTEGER NOT NULL,    -- this last sequence
    floor_chain BLOB NOT NULL,      -- and this chain
    listed INTEGER NOT NULL,
    position INTEGER,               -- the checkpoint's, or NULL for none, with the sequence and the chain there
    last INTEGER,
    chain BLOB,
    header_digest BLOB,
    secrets_digest BLOB,
    characters INTEGER NOT NULL,    -- how many the checkpoint has
    total BLOB NOT NULL,            -- the sum of their digests
    seal BLOB NOT NULL,             -- the digest of all columns above
    header BLOB,
    secrets BLOB
);
CREATE INDEX scenes_listed ON scenes (listed, name);
CREATE INDEX scenes_floor ON scenes (floor);

CREATE TABLE entries (
    position INTEGER PRIMARY KEY,
    scene_id INTEGER NOT NULL,
    first INTEGER NOT NULL,
    last INTEGER NOT NULL,
    blob BLOB NOT NULL,
    chain BLOB NOT NULL
);
CREATE INDEX entries_position ON entries (scene_id, position);
CREATE INDEX entries_last ON entries (scene_id, last);

CREATE TABLE characters (
    scene_id INTEGER NOT NULL,
    name TEXT NOT NULL,
    value BLOB NOT NULL,
    PRIMARY KEY (scene_id, name)
) WITHOUT ROWID;
"""


def require_sqlite(version: str) -> None:
    """Refuse a SQLite that can corrupt a database when the write-ahead log is reset (fixed in 3.51.3).

    Raises:
        JournalUnavailable: `version` is older. Nothing was opened.
    """
    if tuple(int(part) for part in version.split(".")[:3]) < SQLITE_VERSION_MIN:
        least = ".".join(map(str, SQLITE_VERSION_MIN))
        raise JournalUnavailable(
            f"SQLite {version} can lose commits when it resets its write-ahead log; install apsw {least} or newer"
        )


class DatabaseFile:
    """One journal's file, its lock when it is to be written, and the only place that opens connections to it.

    `vfs` names another way to the disk than SQLite's own; tests use it to make the disk fail.
    """

    def __init__(self, path: str, *, read_only: bool, vfs: str | None = None, locked: bool = False) -> None:
        """Take hold of the file at `path`; with `read_only` it must be there, otherwise it is made when missing.

        One that is only read is not locked, unless nobody shall serve it meanwhile.

        Raises:
            JournalUnavailable: It cannot be opened, or another process serves it. Nothing was changed.
            JournalDamaged: It is no journal, or one of an unknown format. Nothing was changed.
        """
        require_sqlite(apsw.sqlite_lib_version())
        # A server that later changes its working directory must not find another file.
        self.path = str(Path(path).resolve())
        self.is_read_only = read_only
        self._vfs = vfs
        self._lock: int | None = None
        with failures_named(self.path), ExitStack() as undo:
            is_there = Path(self.path).exists()
            if not is_there or (read_only and not Path(self.path).stat().st_size):
                Marks.require_none(self.path)
            if not read_only:
                _make(Path(self.path))
                self._lock = _locked(self.path, "Stop that process, or give this one another file")
                undo.callback(self.release)
                self._establish()
            elif not is_there:
                raise FileNotFoundError("there is no such file; name the one that the server is given as its journal")
            elif locked:
                self._lock = _locked(self.path, "Stop that process first")
            undo.pop_all()

    def connect(self, *, writing: bool) -> apsw.Connection:
        """Open a connection of the caller's own: writing syncs before COMMIT returns and never checkpoints by itself.

        Raises:
            apsw.Error: The file cannot be opened. Nothing was changed.
        """
        flags = apsw.SQLITE_OPEN_READWRITE if writing else apsw.SQLITE_OPEN_READONLY
        connection = apsw.Connection(self.path, flags=flags, vfs=self._vfs)
        with ExitStack() as undo:
            undo.callback(connection.close)
            connection.set_busy_timeout(BUSY_TIMEOUT_MS)
            connection.wal_autocheckpoint(0)
            if writing:
                connection.pragma("synchronous", "FULL")
            else:
                # The last reader of a file whose server was killed must not move the log into the database either.
                connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            undo.pop_all()
        return connection

    def release(self) -> None:
        """Let the next process have the file. The lock file stays: were it removed, two processes could lock two."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _establish(self) -> None:
        """Make the tables of a new file, or see that those of an old one are known."""
        with _closing(self.connect(writing=True)) as connection:
            is_new = (
                connection.pragma("application_id") == 0
                and not connection.execute("SELECT count(*) FROM sqlite_schema").get
            )
            if is_new:
                connection.pragma("page_size", PAGE_BYTES)
            else:
                recognise(connection, self.path)
            if connection.pragma("journal_mode", "WAL") != "wal":
                raise JournalUnavailable(f"{self.path} is on a disk that cannot share memory; put it on a local one")
            if is_new:
                secret = os.urandom(SECRET_BYTES)
                # First, so that no journal is ever without its marks; without a journal, empty ones are made anew.
                Marks.make(self.path)
                create(connection, secret)


def recognise(connection: apsw.Connection, path: str) -> bytes:
    """Give the secret of the journal that `connection` leads to.

    Raises:
        JournalDamaged: It is another program's database, or a journal of an unknown format. Nothing was changed.
    """
    if connection.pragma("application_id") != APPLICATION_ID:
        raise JournalDamaged(f"{path} is a database of something else, not a posegate journal; name another file")
    meta: dict[str, object] = dict(connection.execute("SELECT name, value FROM meta"))
    if meta.get("format") != FORMAT:
        raise JournalDamaged(
            f"{path} has journal format {meta.get('format')}; this version reads format {FORMAT}. "
            "Open it with the version that wrote it"
        )
    secret = meta.get("secret")
    if (
        not isinstance(secret, bytes)
        or len(secret) != SECRET_BYTES
        or meta.get("secret_digest") != Digests(secret).content(secret)
    ):
        raise JournalDamaged(f"the secret in {path} is damaged; restore the file from a backup")
    return secret


def create(connection: apsw.Connection, secret: bytes) -> None:
    """Make all tables in one transaction, so that a crash leaves either an empty file or a whole journal."""
    with connection:
        connection.execute(_SCHEMA)
        connection.pragma("application_id", APPLICATION_ID)
        connection.executemany(
            "INSERT INTO meta VALUES (?, ?)",
            [
                ("format", FORMAT),
                ("fence", 0),
                ("secret", secret),
                ("secret_digest", Digests(secret).content(secret)),
            ],
        )


def _make(path: Path) -> None:
    """Make the directory and an empty file that only the owner can read, since it will hold the secret.

    SQLite gives its log and index files the same mode. The file is only ever opened here before any connection is:
    closing a descriptor later would drop the locks that SQLite holds on the same file.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        # A name that is not on disk loses the whole journal at power failure, however well its content is synced.
        for holder in (path.parent, path.parent.parent):
            descriptor = os.open(holder, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


def _locked(path: str, advice: str) -> int:
    """Take the lock file for this process and write its number into it; the lock goes when the process does."""
    lock = path + ".lock"
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        holder = os.read(descriptor, 32).decode("ascii", "replace").strip() or "unknown"
        os.close(descriptor)
        raise JournalUnavailable(
            f"{lock} is held by process {holder}, which serves or repairs {path}. {advice}"
        ) from error
    os.ftruncate(descriptor, 0)
    os.write(descriptor, f"{os.getpid()}\n".encode("ascii"))
    return descriptor


@contextmanager
def _closing(connection: apsw.Connection) -> Iterator[apsw.Connection]:
    """Close `connection` at the end of the block."""
    try:
        yield connection
    finally:
        connection.close()


@contextmanager
def failures_named(path: str) -> Iterator[None]:
    """Turn what the disk and SQLite raise while `path` is opened into the journal's own failures."""
    with translated(f"cannot open {path}"):
        try:
            yield
        except OSError as error:
            raise JournalUnavailable(f"cannot open {path}: {error}") from error
        except DAMAGE as error:
            advice = "Name another file, or bring back a copy of this one"
            raise JournalDamaged(f"cannot open {path}: {error}. {advice}") from error


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Turn SQLite's errors into the journal's, for work that writes nothing.

    Raises:
        JournalDamaged: The file does not hold what SQLite wrote there. Nothing was changed.
        JournalUnavailable: Any other error of SQLite. Nothing was changed.
    """
    try:
        yield
    except DAMAGE as error:
        raise JournalDamaged(f"{doing}: {error}") from error
    except apsw.Error as error:
        raise JournalUnavailable(f"{doing}: {error}") from error
