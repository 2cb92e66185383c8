"""The file system as the store sees it: the only file of compactctl that creates, writes, renames or deletes there.

``Fs`` holds the bare operations and is the one place where faults can be injected: every call goes through
``Fs._once``. ``Dir`` is an open directory; everything in it is reached by a single name relative to its handle and
without following links, so that what was checked is what is used, whatever happens to the path meanwhile.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self, TypeVar

from compactctl.errors import StoreError, UnsafeStoreError

T = TypeVar("T")

TMP = ".tmp-"
DIR_MODE, FILE_MODE = 0o700, 0o600

_DIR = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Opening a pipe would wait for its other end; a regular file takes no notice of O_NONBLOCK.
_FILE = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS}
_CHUNK = 1 << 20


class Fs:
    """The operations, each interrupted one tried again; nothing here knows about the store."""

    def _once(self, call: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        return call(*args, **kwargs)

    def _do(self, call: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        while True:
            try:
                return self._once(call, *args, **kwargs)
            except InterruptedError:
                continue

    def open(self, name: str, flags: int, dir_fd: int | None = None) -> int:
        """Open without following a link; a file that is made has mode 0600."""
        return self._do(os.open, name, flags, FILE_MODE, dir_fd=dir_fd)

    def close(self, fd: int) -> None:
        """Close a handle; the store never depends on what close says, since it has synced before."""
        os.close(fd)

    def mkdir(self, name: str, dir_fd: int | None = None) -> None:
        """Make a directory of mode 0700."""
        self._do(os.mkdir, name, DIR_MODE, dir_fd=dir_fd)

    def write_all(self, fd: int, data: bytes) -> None:
        """Write all bytes, however few the system takes at a time."""
        left = memoryview(data)
        while left:
            left = left[self._do(os.write, fd, left) :]

    def read(self, fd: int, size: int, offset: int) -> bytes:
        """Read up to ``size`` bytes at an offset; empty at the end."""
        return self._do(os.pread, fd, size, offset)

    def sync(self, fd: int) -> None:
        """Make the file or directory durable. An error means that the data is lost: never try again (fsyncgate)."""
        full = getattr(fcntl, "F_FULLFSYNC", None)
        if full is not None and stat.S_ISREG(os.fstat(fd).st_mode):
            self._do(fcntl.fcntl, fd, full)
        else:
            self._do(os.fsync, fd)

    def truncate(self, fd: int, size: int) -> None:
        """Cut a file to a size."""
        self._do(os.ftruncate, fd, size)

    def chmod(self, fd: int, mode: int) -> None:
        """Set the mode of an open file."""
        self._do(os.fchmod, fd, mode)

    def link(self, source: str, target: str, dir_fd: int) -> None:
        """Give a file a second name in the same directory; fails where the name exists."""
        self._do(os.link, source, target, src_dir_fd=dir_fd, dst_dir_fd=dir_fd, follow_symlinks=False)

    def rename(self, source: str, target: str, dir_fd: int) -> None:
        """Rename within a directory, replacing the target."""
        self._do(os.rename, source, target, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)

    def unlink(self, name: str, dir_fd: int) -> None:
        """Remove a name that is no directory."""
        self._do(os.unlink, name, dir_fd=dir_fd)

    def rmdir(self, name: str, dir_fd: int) -> None:
        """Remove an empty directory."""
        self._do(os.rmdir, name, dir_fd=dir_fd)

    def names(self, fd: int) -> list[str]:
        """List a directory."""
        return self._do(os.listdir, fd)

    def stat(self, name: str, dir_fd: int) -> os.stat_result:
        """Look at a name without following a link."""
        return self._do(os.stat, name, dir_fd=dir_fd, follow_symlinks=False)

    def fstat(self, fd: int) -> os.stat_result:
        """Look at an open file."""
        return self._do(os.fstat, fd)

    def lock(self, fd: int, operation: int) -> None:
        """Take or release an advisory lock, which dies with its process."""
        self._do(fcntl.flock, fd, operation)


class Dir:
    """An open directory of the store; close it, or use it as a context manager.

    All methods raise StoreError with the path in question, UnsafeStoreError where a link, a foreign owner or another
    type of file stands there.
    """

    def __init__(self, fs: Fs, fd: int, path: str) -> None:
        self.fs = fs
        self.fd = fd
        self.path = path

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the handle back."""
        if self.fd >= 0:
            self.fs.close(self.fd)
            self.fd = -1

    @classmethod
    def root(cls, fs: Fs, path: Path, *, create: bool = False) -> Dir | None:
        """Open a directory by its path, with its missing parents where ``create`` says so; None where there is none.

        The last component may not be a link: a directory that came with somebody's files must not lead elsewhere.
        """
        text = os.fspath(path)
        try:
            try:
                fd = fs.open(text, _DIR)
            except FileNotFoundError:
                if not create:
                    return None
                _make_with_parents(fs, path)
                fd = fs.open(text, _DIR)
        except OSError as exc:
            raise store_error(text, exc) from exc
        return cls._checked(fs, fd, text)

    @classmethod
    def _checked(cls, fs: Fs, fd: int, path: str) -> Dir:
        try:
            owner = fs.fstat(fd).st_uid
        except OSError as exc:
            fs.close(fd)
            raise store_error(path, exc) from exc
        except BaseException:
            fs.close(fd)
            raise
        if owner != os.geteuid():
            fs.close(fd)
            raise UnsafeStoreError(f"{path!r} belongs to another user: name a directory of your own")
        return cls(fs, fd, path)

    def label(self, name: str) -> str:
        """The path of an entry, for messages."""
        return f"{self.path}/{name}"

    def child(self, name: str, *, create: bool = False) -> Dir | None:
        """Open a directory in this one; None where there is none and none is to be made."""
        try:
            fd = self._open_child(name, create)
        except FileNotFoundError:
            return None
        except OSError as exc:
            raise store_error(self.label(name), exc) from exc
        return self._checked(self.fs, fd, self.label(name))

    def made(self, name: str) -> Dir:
        """Open a directory in this one, making it where it is missing."""
        child = self.child(name, create=True)
        if child is None:
            raise StoreError(f"{self.label(name)!r} was removed by another process: run the command again")
        return child

    def _open_child(self, name: str, create: bool) -> int:
        try:
            return self.fs.open(name, _DIR, self.fd)
        except FileNotFoundError:
            if not create:
                raise
        with suppress(FileExistsError):
            self.fs.mkdir(name, self.fd)
        self.fs.sync(self.fd)
        return _open_made(self.fs, name, self.fd)

    def names(self) -> list[str]:
        """Give all names in the directory, sorted."""
        try:
            return sorted(self.fs.names(self.fd))
        except OSError as exc:
            raise store_error(self.path, exc) from exc

    def look(self, name: str) -> os.stat_result | None:
        """Give what a name is, without following a link; None where there is none."""
        try:
            return self.fs.stat(name, self.fd)
        except FileNotFoundError:
            return None
        except OSError as exc:
            if exc.errno == errno.ENAMETOOLONG:
                return None
            raise store_error(self.label(name), exc) from exc

    def open_file(self, name: str, flags: int = os.O_RDONLY) -> int | None:
        """Open a regular file of the user's own; None where there is none."""
        try:
            fd = self.fs.open(name, flags | _FILE, self.fd)
        except FileNotFoundError as exc:
            if flags & os.O_CREAT:
                raise StoreError(f"{self.path!r} was removed by another process: run the command again") from exc
            return None
        except OSError as exc:
            raise store_error(self.label(name), exc) from exc
        try:
            found = self.fs.fstat(fd)
            if not stat.S_ISREG(found.st_mode):
                raise UnsafeStoreError(f"{self.label(name)!r} is not a regular file: move it away")
            if found.st_uid != os.geteuid():
                raise UnsafeStoreError(f"{self.label(name)!r} belongs to another user: move it away")
            if flags & os.O_RDWR and found.st_nlink > 1:
                raise UnsafeStoreError(
                    f"{self.label(name)!r} has a second name somewhere: copy it and remove the other"
                )
            if flags & os.O_CREAT:
                _despite_umask(self.fs, fd, FILE_MODE)
        except OSError as exc:
            self.fs.close(fd)
            raise store_error(self.label(name), exc) from exc
        except BaseException:
            self.fs.close(fd)
            raise
        if found.st_nlink:
            return fd
        # Another process (gc, at its end) removed the file while it was opened: that is the same as a moment before.
        self.fs.close(fd)
        return self.open_file(name, flags)

    def read(self, name: str, limit: int | None = None) -> bytes | None:
        """Give the whole of a file (at most ``limit`` bytes); None where there is none."""
        fd = self.open_file(name)
        if fd is None:
            return None
        try:
            return b"".join(chunks(self.fs, fd, limit))
        except OSError as exc:
            raise store_error(self.label(name), exc) from exc
        finally:
            self.fs.close(fd)

    def publish(self, name: str, pieces: Iterable[bytes], *, replace: bool = False) -> bool:
        """Let a whole, durable file appear under a name; False where the name is taken and not to be replaced.

        The entry itself is durable after ``sync``. The caller holds the lock of whatever the file belongs to.
        """
        tmp = TMP + name
        try:
            with suppress(FileNotFoundError):
                self.fs.unlink(tmp, self.fd)
            fd = self.fs.open(tmp, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE, self.fd)
            try:
                try:
                    _despite_umask(self.fs, fd, FILE_MODE)
                    for piece in pieces:
                        self.fs.write_all(fd, piece)
                    self.fs.sync(fd)
                finally:
                    self.fs.close(fd)
                return self._name(tmp, name, replace)
            except BaseException:
                with suppress(OSError):
                    self.fs.unlink(tmp, self.fd)
                raise
        except OSError as exc:
            raise store_error(self.label(name), exc) from exc

    def _name(self, tmp: str, name: str, replace: bool) -> bool:
        if replace:
            self.fs.rename(tmp, name, self.fd)
            return True
        try:
            self.fs.link(tmp, name, self.fd)
        except FileExistsError:
            self.fs.unlink(tmp, self.fd)
            return False
        except OSError as exc:
            # Some file systems have no second names. The lock keeps our own processes out between look and rename.
            if exc.errno not in _NO_LINKS or self.look(name) is not None:
                raise
            self.fs.rename(tmp, name, self.fd)
            return True
        self.fs.unlink(tmp, self.fd)
        return True

    def unlink(self, name: str) -> None:
        """Remove a file if it is there."""
        try:
            self.fs.unlink(name, self.fd)
        except FileNotFoundError:
            return
        except OSError as exc:
            raise store_error(self.label(name), exc) from exc

    def rmdir(self, name: str) -> bool:
        """Remove a directory if it is there and empty; False where something is left in it."""
        try:
            self.fs.rmdir(name, self.fd)
        except FileNotFoundError:
            return True
        except OSError as exc:
            if exc.errno in (errno.ENOTEMPTY, errno.EEXIST):
                return False
            raise store_error(self.label(name), exc) from exc
        return True

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other processes that ask for the same out of this directory, for files that belong to no session."""
        try:
            self.fs.lock(self.fd, fcntl.LOCK_EX)
        except OSError as exc:
            raise store_error(self.path, exc) from exc
        try:
            yield
        finally:
            with suppress(OSError):
                self.fs.lock(self.fd, fcntl.LOCK_UN)

    def sync(self) -> None:
        """Make the entries of the directory durable."""
        try:
            self.fs.sync(self.fd)
        except OSError as exc:
            raise store_error(self.path, exc) from exc


def chunks(fs: Fs, fd: int, limit: int | None = None) -> Iterator[bytes]:
    """Give the bytes of an open file piece by piece, no more than ``limit``."""
    offset = 0
    while limit is None or offset < limit:
        data = fs.read(fd, _CHUNK if limit is None else min(_CHUNK, limit - offset), offset)
        if not data:
            return
        offset += len(data)
        yield data


def store_error(path: str, exc: OSError) -> StoreError:
    """Give the error that a user sees for an error of the system."""
    if exc.errno == errno.ELOOP:
        return UnsafeStoreError(
            f"{path!r} is a symbolic link, which the store does not follow: move it away, or name the real directory"
        )
    if exc.errno == errno.ENOTDIR:
        return UnsafeStoreError(f"{path!r} is a link or not a directory, which the store does not follow: move it away")
    if exc.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return StoreError(f"{path!r} could not be written: {exc.strerror}; free some space or use another --state-dir")
    return StoreError(f"{path!r} could not be used: {exc.strerror}; check it or use another --state-dir")


def _open_made(fs: Fs, name: str, dir_fd: int | None) -> int:
    fd = fs.open(name, _DIR, dir_fd)
    try:
        _despite_umask(fs, fd, DIR_MODE)
    except BaseException:
        fs.close(fd)
        raise
    return fd


def _despite_umask(fs: Fs, fd: int, mode: int) -> None:
    # A umask only takes bits away; those that the owner needs are given back on the open handle.
    if fs.fstat(fd).st_mode & mode != mode:
        fs.chmod(fd, mode)


def _make_with_parents(fs: Fs, path: Path) -> None:
    try:
        fs.mkdir(os.fspath(path))
    except FileExistsError:
        return
    except FileNotFoundError:
        if path.parent == path:
            raise
        _make_with_parents(fs, path.parent)
        with suppress(FileExistsError):
            fs.mkdir(os.fspath(path))
    fs.close(_open_made(fs, os.fspath(path), None))
    parent = fs.open(os.fspath(path.parent), _DIR & ~os.O_NOFOLLOW)
    try:
        fs.sync(parent)
    finally:
        fs.close(parent)
