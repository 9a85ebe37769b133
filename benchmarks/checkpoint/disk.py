"""The disk below a folder: what it writes and reads at best, and how to have nothing of a folder in the page cache."""

from __future__ import annotations

import mmap
import os
import pathlib
import threading
import time

PIECE = 8 << 20


def files_in(folder: str | pathlib.Path) -> list[pathlib.Path]:
    return [path for path in sorted(pathlib.Path(folder).rglob("*")) if path.is_file() and not path.is_symlink()]


def bytes_in(folder: str | pathlib.Path) -> int:
    return sum(path.stat().st_size for path in files_in(folder))


def forget(folder: str | pathlib.Path) -> None:
    """Only pages that are on the disk can be dropped."""
    os.sync()
    for path in files_in(folder):
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def write_one(path: pathlib.Path, num_bytes: int) -> None:
    piece = mmap.mmap(-1, PIECE)  # page-aligned, as O_DIRECT wants it
    piece.write(os.urandom(PIECE))
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_DIRECT)
    try:
        os.posix_fallocate(file, 0, num_bytes)
        for _ in range(num_bytes // PIECE):
            os.write(file, piece)
        os.fsync(file)
    finally:
        os.close(file)


def read_one(path: pathlib.Path) -> None:
    piece = mmap.mmap(-1, PIECE)
    file = os.open(path, os.O_RDONLY | os.O_DIRECT)
    try:
        while os.readv(file, [piece]) > 0:
            pass
    finally:
        os.close(file)


def at_once(actions: list) -> float:
    threads = [threading.Thread(target=action) for action in actions]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - start


def sequential_rates(folder: pathlib.Path, num_bytes: int, num_files: int) -> tuple[float, float]:
    """Bytes a second, written and read: as many files at once as there are ranks, large pieces past the page cache, synced at the end."""
    share = max(PIECE, num_bytes // num_files // PIECE * PIECE)
    paths = [folder / f"plain{i}" for i in range(num_files)]
    os.sync()
    try:
        wrote_s = at_once([lambda path=path: write_one(path, share) for path in paths])
        read_s = at_once([lambda path=path: read_one(path) for path in paths])
    finally:
        for path in paths:
            path.unlink(missing_ok=True)
    return share * num_files / wrote_s, share * num_files / read_s
