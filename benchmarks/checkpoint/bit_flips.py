#!/usr/bin/env python3
"""Single bits flipped at random in the files of a checkpoint: how many does loading it notice? weft's store, torch.save, DCP.

    make && .venv/bin/python benchmarks/checkpoint/bit_flips.py [--flips 1000000] [--peer-flips 100000] [--results benchmarks/results]

weft's flips are those of weft/checkpoint/store_damage_test.cpp, which also wants file, block and tensor named for each. The peers save a
tensor of the same size; each flip is undone after its load. A load that goes well is compared with what was saved: values that are others are
what nobody would have noticed; the same values mean that the bit was in a byte nobody reads.
"""

from __future__ import annotations

import argparse
import collections
import datetime
import io
import logging
import os
import pathlib
import random
import resource
import subprocess
import sys
import tempfile
import warnings

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from benchmarks.e2e.pages import command_line, dated, write_results  # noqa: E402
from benchmarks.e2e.train_vs_torch import progress  # noqa: E402

FLIPS_A_RUN = 20_000  # of store_damage_test.cpp
REFUSED, WRONG, SAME, ENDED = KINDS = "refused", "loaded, other values", "loaded, same values", "ended the process"
MEMORY_BYTES = 8 << 30  # that a load may take; a flipped size may ask for any


def weft_flips(o: argparse.Namespace) -> collections.Counter:
    runs = -(-o.flips // FLIPS_A_RUN)
    words = [str(o.test), "--gtest_filter=StoreDamage.EveryFlippedBitIsFoundAndNamed", "--gtest_shuffle", f"--gtest_random_seed={o.seed}", f"--gtest_repeat={runs}", "--gtest_brief=1"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=3600)
    if done.returncode != 0 or done.stdout.count("[  PASSED  ] 1 test") != runs:
        raise SystemExit(f"weft missed one, or the test did not run {runs} times:\n{(done.stdout + done.stderr)[-2000:]}")
    return collections.Counter({REFUSED: runs * FLIPS_A_RUN})


def example() -> dict:
    import torch

    torch.manual_seed(0)
    return {"wte": torch.randn(64, 40), "h.bias": torch.randn(7), "scale": torch.tensor(2.0)}


def outcome(load, state: dict) -> str:
    """Whatever a loader throws counts as refused; an end of the process would not."""
    import torch

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = load()
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001  DCP's own error is no Exception
        return REFUSED
    same = isinstance(found, dict) and found.keys() == state.keys() and all(
        isinstance(found[name], torch.Tensor) and found[name].dtype == value.dtype and found[name].shape == value.shape and
        not found[name].requires_grad and found[name].numpy().tobytes() == value.numpy().tobytes() for name, value in state.items())
    return SAME if same else WRONG


def in_children(count: int, one) -> collections.Counter:
    """one(i) for each i, in a process that may die of it: that is counted, and another goes on with the next."""
    found: collections.Counter = collections.Counter()
    while sum(found.values()) < count:
        read, write = os.pipe()
        if (child := os.fork()) == 0:
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
            logging.disable()
            for i in range(sum(found.values()), count):
                os.write(write, bytes([KINDS.index(one(i))]))
            os._exit(0)
        os.close(write)
        while piece := os.read(read, 4096):
            found.update(KINDS[kind] for kind in piece)
        os.close(read)
        if os.waitpid(child, 0)[1] != 0:
            found[ENDED] += 1
    return found


def torch_save_flips(o: argparse.Namespace, rng: random.Random) -> collections.Counter:
    import torch

    state, buffer = example(), io.BytesIO()
    torch.save(state, buffer)
    data = bytearray(buffer.getvalue())
    bits = [rng.randrange(len(data) * 8) for _ in range(o.peer_flips)]

    def one(i: int) -> str:
        data[bits[i] // 8] ^= 1 << bits[i] % 8
        kind = outcome(lambda: torch.load(io.BytesIO(data), weights_only=True), state)
        data[bits[i] // 8] ^= 1 << bits[i] % 8
        return kind

    return in_children(o.peer_flips, one)


def flip(path: pathlib.Path, bit: int) -> None:
    with path.open("r+b") as file:
        file.seek(bit // 8)
        byte = file.read(1)[0]
        file.seek(bit // 8)
        file.write(bytes([byte ^ 1 << bit % 8]))


def dcp_flips(o: argparse.Namespace, rng: random.Random) -> collections.Counter:
    import torch
    import torch.distributed.checkpoint as dcp

    state = example()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dcp.save(state, checkpoint_id=folder, no_dist=True)
        files = [path for path in sorted(pathlib.Path(folder).iterdir()) if path.is_file()]

        def load() -> dict:
            into = {name: torch.zeros_like(value) for name, value in state.items()}
            dcp.load(into, checkpoint_id=folder, no_dist=True)
            return into

        whole = {path: path.read_bytes() for path in files}
        places = [(path := rng.choice(files), rng.randrange(len(whole[path]) * 8)) for _ in range(o.peer_flips // 10)]

        def one(i: int) -> str:
            path, bit = places[i]
            for other in files:  # what one that died has left
                if other.stat().st_size != len(whole[other]) or other.read_bytes() != whole[other]:
                    other.write_bytes(whole[other])
            flip(path, bit)
            kind = outcome(load, state)
            path.write_bytes(whole[path])
            return kind

        return in_children(len(places), one)


def line_of(name: str, found: collections.Counter) -> str:
    total = sum(found.values())
    return f"| {name} | {total:,} | " + " | ".join(f"{found[kind]:,} ({found[kind] / total:.2%})" for kind in KINDS) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flips", type=int, default=1_000_000, help="in weft's store")
    parser.add_argument("--peer-flips", type=int, default=100_000, help="in torch.save's file; a tenth of it in DCP's, which takes longer")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--test", type=pathlib.Path, default=ROOT / "build/release/bin/checkpoint_format_test")
    parser.add_argument("--results", type=pathlib.Path, help="folder for a dated Markdown file")
    o = parser.parse_args()
    rng = random.Random(o.seed)
    rows = {}
    for name, count in (("weft", lambda: weft_flips(o)), ("torch.save", lambda: torch_save_flips(o, rng)), ("DCP", lambda: dcp_flips(o, rng))):
        rows[name] = count()
        progress(line_of(name, rows[name]))
    lines = "\n".join(line_of(name, found) for name, found in rows.items())
    text = f"""# Bits flipped in checkpoints

{datetime.date.today()}, {os.cpu_count()} cores. Command: `{command_line("benchmarks/checkpoint/bit_flips.py", sys.argv[1:])}`

One bit at a time, at random over all files of a saved step, a file as likely as the other. weft's was refused every time with the file, the
block and the tensor it is in; the test that counts them fails otherwise.

| | flips | refused | loaded, other values | loaded, same values | ended the process |
|---|---|---|---|---|---|
{lines}
"""
    print(text)
    write_results(o, dated("bit_flips"), text)


if __name__ == "__main__":
    main()
