#!/usr/bin/env python3
"""Training that is killed again and again: no committed step may be lost, no bad one loaded, and the losses must be the clean run's.

    make && .venv/bin/python tests/cli/checkpoint_soak.py kills --kills 10000 --ranks 2
    make && .venv/bin/python tests/cli/checkpoint_soak.py chaos --for 3600 --every 5 --ranks 3

kills: all processes at once, at random moments of a run that saves every step. chaos: one rank at random, of a run that restarts itself.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = "--dim 16 --layers 1 --heads 2 --seq 8 --micro-batch 1 --vocab 64 --threads 1 --data random --warmup 0".split()


def children_of(pid: int) -> list[int]:
    try:
        return [int(word) for word in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []  # it has ended


def steps_in(store: pathlib.Path) -> list[int]:
    return sorted(int(path.name[5:]) for path in store.glob("step_????????"))


def newest(store: pathlib.Path) -> int:
    return max(steps_in(store), default=0)


def bits_of(folder: pathlib.Path) -> dict[int, str]:
    """The loss of each step that a run's metrics have, as text that holds all its bits; rows that a kill tore are left out."""
    out: dict[int, str] = {}
    for path in sorted(folder.glob("runs/*/metrics.jsonl")):
        for line in path.read_text().splitlines():
            try:
                row = json.loads(line)
            except json.JSONDecodeError:
                continue
            known = out.setdefault(row["step"], repr(row["loss"]))
            assert known == repr(row["loss"]), f"step {row['step']} had another loss the second time: {path}"
    return out


def clean_losses(weft: pathlib.Path, ranks: int, steps: int, folder: pathlib.Path) -> list[float]:
    done = subprocess.run([str(weft), "train", "-n", str(ranks), *MODEL, "--steps", str(steps), "--json", "-"], cwd=folder, capture_output=True,
                          text=True, check=True, timeout=3600)
    return json.loads(done.stdout)["loss"]


def compare(folder: pathlib.Path, weft: pathlib.Path, ranks: int) -> int:
    """How many steps were compared with those of a run that nobody disturbed."""
    found = bits_of(folder)
    with tempfile.TemporaryDirectory() as aside:
        whole = clean_losses(weft, ranks, max(found), pathlib.Path(aside))
    for step, loss in found.items():
        assert loss == repr(whole[step - 1]), f"step {step} has loss {loss}, undisturbed it has {whole[step - 1]!r}"
    return len(found)


def kill_all(weft: pathlib.Path, folder: pathlib.Path, ranks: int, kills: int, seed: int, deadline_s: float = 60) -> int:
    """Returns the number of steps that were compared."""
    chance, store, last = random.Random(seed), folder / "s", 0
    words = ["-n", str(ranks), "--steps", "1000000000", "--save", "s", "--save-every", "1", "--keep-last", "3", "--resume"]
    for number in range(kills):
        run = subprocess.Popen([str(weft), "train", *MODEL, *words], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                               start_new_session=True, text=True)
        end = time.monotonic() + deadline_s
        while newest(store) <= last:
            assert run.poll() is None, f"after {number} kills it ended by itself:\n{run.stderr.read()}"
            assert time.monotonic() < end, f"after {number} kills no new step came in {deadline_s} s"
            time.sleep(0.005)
        time.sleep(chance.random() * 0.05)
        ranks_of = children_of(run.pid)
        os.killpg(run.pid, signal.SIGKILL)
        for pid in ranks_of:  # in process groups of their own; the kernel is about to kill them anyway
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        run.communicate()
        assert newest(store) > last, "a committed step is gone"
        last = newest(store)
    return compare(folder, weft, ranks)


def chaos(weft: pathlib.Path, folder: pathlib.Path, ranks: int, for_s: float, every_s: float, seed: int) -> dict:
    """Kills a rank at random until the time is over, then lets the run end."""
    chance, store, kills = random.Random(seed), folder / "s", 0
    words = ["-n", str(ranks), "--restarts", "1000", "--steps", "1000000000", "--save", "s", "--save-every", "1", "--keep-last", "3"]
    said = (folder / "said.txt").open("w+")  # not a pipe: nobody would read it, and once it is full the run would stand still
    run = subprocess.Popen([str(weft), "train", *MODEL, *words], cwd=folder, stdout=subprocess.DEVNULL, stderr=said)
    end, stuck_after, last = time.monotonic() + for_s, 180.0, 0
    lost_s = 0.0
    try:
        while time.monotonic() < end:
            began = time.monotonic()
            while newest(store) <= last:
                assert run.poll() is None and time.monotonic() - began < stuck_after, f"it does not go on:\n{(folder / 'said.txt').read_text()[-2000:]}"
                time.sleep(0.01)
            lost_s += time.monotonic() - began if kills else 0
            time.sleep(chance.random() * every_s)
            last = newest(store)
            pids = children_of(run.pid)
            if pids:
                os.kill(chance.choice(pids), signal.SIGKILL)
                kills += 1
    finally:
        run.send_signal(signal.SIGTERM)
        run.communicate(timeout=60)
    return {"kills": kills, "steps": compare(folder, weft, ranks), "lost_s_per_kill": round(lost_s / max(1, kills), 3)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["kills", "chaos"])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--kills", type=int, default=10000)
    parser.add_argument("--for", dest="for_s", type=float, default=3600)
    parser.add_argument("--every", dest="every_s", type=float, default=5)
    parser.add_argument("--seed", type=int, default=0)
    o = parser.parse_args()
    weft = ROOT / "build" / "release" / "bin" / "weft"
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        if o.what == "kills":
            print(f"{o.kills} kills, {kill_all(weft, folder, o.ranks, o.kills, o.seed)} steps have the losses of an undisturbed run")
        else:
            print(json.dumps(chaos(weft, folder, o.ranks, o.for_s, o.every_s, o.seed)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
