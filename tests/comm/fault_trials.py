#!/usr/bin/env python3
"""Kills, stops and cuts off ranks at random moments, and checks that every survivor names the right one in time.

    tests/comm/fault_trials.py --count 500 --seed 1 [--transports shm,gloo,hosts] [--lab] [--json FILE]

One trial: 2 to 4 ranks of trial_rank on one transport ("hosts": shared memory inside, gloo between, each pair of ranks taken
for a host); a victim; a fault (kill -9, SIGSTOP) at a random moment of the start, at a random moment later, or before or after
a chosen call of a chosen collective. With --lab (root, network namespaces) some trials cut a host off the network instead.
A survivor must end by itself within twice its deadline, with the victim's number in its error; afterwards no process may be
left. Exit code 1 with failures, each printed with the seed that repeats it.
"""

from __future__ import annotations

import argparse
import dataclasses
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
OPERATIONS = ["all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce", "all_to_all", "gather", "scatter", "barrier"]
DEADLINE_S = 2.0
JOIN_DEADLINE_S = 4.0
# A loaded machine takes its time to start a process that links libtorch, and to reap one.
SLACK_S = 3.0


@dataclasses.dataclass
class Trial:
    seed: int
    transport: str
    world: int
    victim: int
    fault: str  # kill, stop, cut
    phase: str  # start, later, call
    at_s: float
    script: str

    def describe(self) -> str:
        when = self.script if self.phase == "call" else f"{self.phase} +{self.at_s:.2f} s"
        return f"seed {self.seed}: {self.transport}, {self.world} ranks, {self.fault} rank {self.victim}, {when}"


def make_trial(seed: int, transports: list[str], lab: bool, only: str | None) -> Trial:
    rng = random.Random(seed)
    transport = rng.choice(transports)
    world = rng.randint(3, 4) if transport == "hosts" else rng.randint(2, 4)
    victim = rng.randrange(world)
    fault = only if only in ("kill", "stop") else rng.choice(["kill", "stop"])
    phase = rng.choice(["start", "later", "call", "call"])
    if only == "cut" or (lab and not only and transport != "shm" and rng.random() < 0.25):
        fault, phase, world = "cut", rng.choice(["start", "later"]), 4
    script = ""
    if phase == "call":
        script = f"rank={victim} at={rng.randint(1, 30)} op={rng.choice(OPERATIONS)} do={fault} when={rng.choice(['before', 'after'])}"
    at_s = rng.uniform(0, 0.6) if phase == "start" else rng.uniform(0, 0.8)
    return Trial(seed, transport, world, victim, fault, phase, at_s, script)


@dataclasses.dataclass
class Rank:
    number: int
    process: subprocess.Popen
    out: pathlib.Path
    ended_s: float | None = None

    def said(self) -> list[dict]:
        lines = self.out.read_text().splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]


class Lab:
    """Two hosts of tools/netlab; ranks 0 and 1 are on the first, 2 and 3 on the second."""

    def __init__(self, name: str):
        self.name = name
        self.tool = [str(ROOT / "tools/netlab"), "--lab", name]

    def __enter__(self):
        subprocess.run([*self.tool, "up", "2"], check=True, timeout=60, capture_output=True)
        return self

    def __exit__(self, *_):
        subprocess.run([*self.tool, "down"], check=False, timeout=60, capture_output=True)

    def command(self, rank: int) -> list[str]:
        return [*self.tool, "run", f"host{rank // 2}", "--"]

    def cut(self):
        subprocess.run([*self.tool, "cut", "host1"], check=True, timeout=60, capture_output=True)


def free_port() -> int:
    import socket

    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def environment(trial: Trial, rank: int, port: int, folder: pathlib.Path, lab: Lab | None) -> dict[str, str]:
    env = {key: value for key, value in os.environ.items() if not key.startswith(("SLURM_", "OMPI_", "TORCHELASTIC_"))}
    env |= {"RANK": str(rank), "WORLD_SIZE": str(trial.world), "MASTER_ADDR": "host0" if lab else "127.0.0.1",
            "MASTER_PORT": str(port), "WEFT_RUN_ID": f"trial-{os.getpid()}-{trial.seed}", "OMP_NUM_THREADS": "1",
            "WEFT_DEADLINE_S": str(DEADLINE_S), "WEFT_JOIN_DEADLINE_S": str(JOIN_DEADLINE_S), "WEFT_LOG": "error",
            "WEFT_FLIGHT_DIR": str(folder / "flight"), "WEFT_TRANSPORT": "gloo" if trial.transport == "gloo" else "auto"}
    if trial.transport == "shm":
        env |= {"LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(trial.world)}
    elif trial.transport == "hosts" and not lab:
        env["WEFT_HOST_ID"] = f"trial-host-{rank // 2}"
    if trial.script:
        env["WEFT_FAULTS"] = trial.script
    return env


def start(trial: Trial, program: str, folder: pathlib.Path, lab: Lab | None) -> list[Rank]:
    port = free_port()
    ranks = []
    for number in range(trial.world):
        out = folder / f"rank_{number}.out"
        command = [*(lab.command(number) if lab else []), program]
        with out.open("w") as stream, (folder / f"rank_{number}.err").open("w") as errors:
            process = subprocess.Popen(command, stdout=stream, stderr=errors, stdin=subprocess.DEVNULL, start_new_session=True,
                                       env=environment(trial, number, port, folder, lab))
        ranks.append(Rank(number, process, out))
    return ranks


def wait_for(condition, limit_s: float) -> bool:
    end = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def is_stopped(pid: int) -> bool:
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] in "Tt"
    except OSError:
        return False


def do_harm(trial: Trial, ranks: list[Rank], lab: Lab | None) -> str | None:
    """Returns what kept it from happening."""
    victim = ranks[trial.victim]
    if trial.phase != "start" and not wait_for(lambda: all(any("joined" in line for line in one.said()) for one in ranks), 30):
        return "the ranks did not join: " + "; ".join(one.out.read_text()[:200] for one in ranks)
    if trial.phase == "call":
        gone = lambda: victim.process.poll() is not None if trial.fault == "kill" else is_stopped(victim.process.pid)
        return None if wait_for(gone, 60) else "the scripted fault did not happen"
    time.sleep(trial.at_s)
    if trial.fault == "cut":
        lab.cut()
    else:
        victim.process.send_signal(signal.SIGKILL if trial.fault == "kill" else signal.SIGSTOP)
    return None


def judge(trial: Trial, rank: Rank, harmed_s: float, limit_s: float) -> str | None:
    if rank.ended_s is None:
        return f"rank {rank.number} still runs {limit_s:.1f} s after the fault"
    said = rank.said()
    last = said[-1] if said else {}
    far = [one for one in range(trial.world) if one // 2 != rank.number // 2]
    wanted = far if trial.fault == "cut" else [trial.victim]
    if "lost" in last and last["lost"] in wanted:
        return None
    if "error" in last and any(f"rank {one}" in last["error"] for one in wanted):
        return None
    return f"rank {rank.number} (exit {rank.process.returncode}) named the wrong one or none: {last or rank.out.with_suffix('.err').read_text()[-600:]}"


def run_trial(trial: Trial, program: str) -> list[str]:
    with tempfile.TemporaryDirectory(prefix="weft-trial-") as name:
        folder = pathlib.Path(name)
        if trial.fault == "cut":
            with Lab(f"trial{os.getpid() % 10000}") as lab:
                return run_ranks(trial, program, folder, lab)
        return run_ranks(trial, program, folder, None)


def run_ranks(trial: Trial, program: str, folder: pathlib.Path, lab: Lab | None) -> list[str]:
    ranks = start(trial, program, folder, lab)
    try:
        problem = do_harm(trial, ranks, lab)
        harmed_s = time.monotonic()
        if problem:
            return [problem]
        survivors = [one for one in ranks if trial.fault == "cut" or one.number != trial.victim]
        deadline_s = JOIN_DEADLINE_S if trial.phase == "start" else DEADLINE_S
        limit_s = 2 * deadline_s + SLACK_S
        for one in survivors:
            if wait_for(lambda one=one: one.process.poll() is not None, max(0.0, harmed_s + limit_s - time.monotonic())):
                one.ended_s = time.monotonic() - harmed_s
        return [said for said in (judge(trial, one, harmed_s, limit_s) for one in survivors) if said]
    finally:
        for one in ranks:
            try:
                os.killpg(one.process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            one.process.wait(timeout=30)


def shared_memory() -> set[str]:
    """Without what a browser and other runs of weft keep there: they may come and go beside the trials."""
    names = os.listdir("/dev/shm") if os.path.isdir("/dev/shm") else []
    return {name for name in names if not name.startswith((".org.chromium.", "weft-buddy-"))}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1, help="of the first trial; each next one has the next number")
    parser.add_argument("--transports", default="shm,gloo,hosts")
    parser.add_argument("--lab", action="store_true", help="also cut hosts off, in network namespaces (root)")
    parser.add_argument("--only", choices=["kill", "stop", "cut"], help="this fault and no other; cut needs --lab")
    parser.add_argument("--program", default=str(ROOT / "build/release/bin/comm_trial_rank"))
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    if options.only == "cut" and not options.lab:
        parser.error("--only cut needs --lab")
    before = shared_memory()
    failures, counts, began_s = [], {}, time.monotonic()
    for index in range(options.count):
        trial = make_trial(options.seed + index, options.transports.split(","), options.lab, options.only)
        found = run_trial(trial, options.program)
        key = f"{trial.transport}/{trial.fault}/{trial.phase}"
        counts[key] = counts.get(key, 0) + 1
        if found:
            failures.append({"trial": trial.describe(), "found": found})
            print(f"FAILED {trial.describe()}\n  " + "\n  ".join(found), flush=True)
        elif index % 10 == 9:
            print(f"{index + 1}/{options.count} trials, {len(failures)} failed, {time.monotonic() - began_s:.0f} s", flush=True)
    left = shared_memory() - before
    if left:
        failures.append({"trial": "all", "found": [f"left in /dev/shm: {sorted(left)}"]})
    print(f"{options.count} trials, {len(failures)} failed; " + ", ".join(f"{key} {value}" for key, value in sorted(counts.items())))
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps({"schema": 1, "trials": options.count, "counts": counts, "failures": failures}, indent=1))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
