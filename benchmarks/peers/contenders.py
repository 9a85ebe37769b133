"""Who takes part in the comparisons of data-parallel training, and how one round of each is run.

A contender is weft with some config, or a peer on the same model, weights and tokens. Unless it says torchrun, it is started by `weft run`,
one thread a rank, so that the launcher and its environment are the same for everybody; rank 0 leaves the fields of `weft train
--json`.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
from typing import Optional

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from benchmarks.e2e.train_vs_torch import LR, SEED, progress, shape_of  # noqa: E402

LIMIT_S = 900  # of one round
REFUSED = 2  # exit code of weft for what it does not do
HOW_TO_GET = {"reducer": "ninja -C build/release c10d_reducer", "deepspeed": "benchmarks/config/setup", "torch": "make"}


@dataclasses.dataclass(frozen=True)
class Contender:
    name: str
    who: str = "weft"  # weft, torch, deepspeed or reducer
    stage: int = 0  # of ZeRO
    precision: str = "fp32"  # or bf16, fp16
    overlap: bool = True
    bucket: Optional[int] = None  # elements; None: as `auto` says, or weft's default
    auto: bool = False  # weft chooses the bucket
    wire: str = "fp32"
    transport: str = ""  # "": weft chooses
    alone: bool = False  # one rank, whatever the world is
    torchrun: bool = False  # torch's own launcher, as its users have it
    plain_memory: bool = False  # without what weft run tells glibc: as any other launcher would start it
    wrap: str = "ddp"  # torch's: or fsdp2, fsdp2-kept
    lazy_gather: Optional[bool] = None  # weft gathers parameters when forward needs them; None: its default
    more: dict = dataclasses.field(default_factory=dict)  # further keys of the config of weft and of DeepSpeed
    apart: bool = False  # as many worlds of one rank as there are ranks, at the same time: what sharing the processor costs


WEFT_ALONE = Contender("weft, one rank alone", alone=True)
WEFT_APART = Contender("weft, ranks that never meet", alone=True, apart=True)
TORCH_ALONE = Contender("Python torch, one rank alone", who="torch", alone=True)
TORCH_DDP = Contender("torch DDP", who="torch")
TORCHRUN_DDP = Contender("torch DDP, by torchrun", who="torch", torchrun=True)
TORCH_BF16 = Contender("torch DDP, bf16 hook", who="torch", wire="bf16")
TORCH_FSDP2 = Contender("torch FSDP2", who="torch", wrap="fsdp2")
TORCH_FSDP2_KEPT = Contender("torch FSDP2, parameters kept", who="torch", wrap="fsdp2-kept")
REDUCER = Contender("c10d::Reducer from C++", who="reducer")


class Place:
    """Where ranks run: on this host, or one or more on each of several."""

    def __init__(self, weft: pathlib.Path, ranks: int, hosts: Optional[list[str]] = None, options: tuple[str, ...] = ()) -> None:
        self.weft, self.ranks, self.hosts, self.options = weft, ranks, hosts, options
        self.per_host = ranks // len(hosts) if hosts else ranks

    def torchrun(self) -> list[str]:
        return [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(self.ranks), "--no-python"]

    def command(self, only: Optional[int] = None) -> list[str]:
        """Runs what follows as all ranks, or as a world of one where rank `only` would be."""
        run = [str(self.weft), "run", "--threads", "1", *self.options]
        if not self.hosts:
            return [*run, "-n", str(self.ranks) if only is None else "1", "--"]
        hosts = [f"{host}:{self.per_host}" for host in self.hosts] if only is None else [self.hosts[only // self.per_host]]
        return [*run, "--hosts", ",".join(hosts), "--ssh", f"{ROOT / 'tools/netlab'} ssh", "--"]


def merged(config: dict, more: dict) -> dict:
    return {**config, **{key: {**config.get(key, {}), **value} if isinstance(value, dict) else value for key, value in more.items()}}


def weft_config(contender: Contender, micro_batch: int) -> dict:
    zero = {"stage": contender.stage, "overlap_comm": contender.overlap}
    if contender.bucket:
        zero["reduce_bucket_size"] = contender.bucket
    config = {"train_micro_batch_size_per_gpu": micro_batch, "gradient_accumulation_steps": 1, "gradient_clipping": 0,
              "optimizer": {"type": "AdamW", "params": {"lr": LR, "weight_decay": 0.01}}, "zero_optimization": zero}
    ours = {"bucket": "auto" if contender.auto else None, "transport": contender.transport or None, "lazy_gather": contender.lazy_gather}
    ours = {key: value for key, value in ours.items() if value is not None}
    if ours:
        config["weft"] = ours
    if contender.wire != "fp32":
        config["communication_data_type"] = contender.wire
    narrow = {contender.precision: {"enabled": True}} if contender.precision != "fp32" else {}
    return merged(merged(config, narrow), contender.more)


def weft_words(place: Place, contender: Contender, o: argparse.Namespace, init: pathlib.Path, folder: pathlib.Path) -> list[str]:
    config = folder / "ds_config.json"
    config.write_text(json.dumps(weft_config(contender, o.micro_batch)))
    words = [str(place.weft), "train", "--config", str(config), "--data", "random", "--steps", str(o.steps), "--threads", "1", "--device", o.device,
             "--micro-batch", str(o.micro_batch), "--seed", str(SEED), "--lr", str(LR), "--warmup", "0", "--init", str(init), "--json", str(folder / "result.json"),
             "--runs", str(folder / "runs")]
    return words + [word for name, value in shape_of(o).items() for word in (f"--{name}", str(value))]


def peer_job(contender: Contender, o: argparse.Namespace, init: pathlib.Path, folder: pathlib.Path) -> dict:
    job = {"shape": shape_of(o), "init": str(init), "steps": o.steps, "seed": SEED, "lr": LR, "micro_batch": o.micro_batch, "device": o.device,
           "precision": contender.precision, "wire": contender.wire, "out": str(folder / "result.json")}
    if contender.who == "deepspeed":
        return {**job, "stage": contender.stage, "overlap": contender.overlap, "bucket": contender.bucket, "config": contender.more}
    return {**job, "wrap": contender.wrap}


def peer_words(contender: Contender, o: argparse.Namespace, init: pathlib.Path, folder: pathlib.Path) -> list[str]:
    peers = ROOT / "benchmarks/peers"
    programs = {"reducer": [o.reducer], "torch": [sys.executable, peers / "torch_rank.py"], "deepspeed": [o.deepspeed, peers / "deepspeed_rank.py"]}
    program = [str(word) for word in programs[contender.who]]
    if not pathlib.Path(program[0]).exists():
        raise SystemExit(f"error: {contender.name} cannot be started: {program[0]} is not there\n  do:    {HOW_TO_GET[contender.who]}")
    return [*program, json.dumps(peer_job(contender, o, init, folder))]


def start(place: Place, contender: Contender, o: argparse.Namespace, init: pathlib.Path, folder: pathlib.Path, only: Optional[int]) -> subprocess.Popen:
    folder.mkdir(exist_ok=True)
    (folder / "result.json").unlink(missing_ok=True)
    words = weft_words(place, contender, o, init, folder) if contender.who == "weft" else peer_words(contender, o, init, folder)
    launcher = place.torchrun() if contender.torchrun else place.command(only)
    if contender.plain_memory:
        words = ["env", "-u", "GLIBC_TUNABLES", *words]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen([*launcher, *words], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=folder)


class RoundFailed(SystemExit):
    """A contender ended with an error; the process does too, unless somebody knows better."""

    def __init__(self, contender: Contender, code: int, output: str) -> None:
        super().__init__(f"{contender.name} ended with {code}:\n{output[-3000:]}")
        self.refused = contender.who == "weft" and code == REFUSED
        said = re.findall(r"^(?:\[rank \d+\] )?(?:error:| *what:) +(.*)$", output, re.MULTILINE)
        self.why = ": ".join(said[:2]) or output[-300:]


def run_round(place: Place, contender: Contender, o: argparse.Namespace, init: pathlib.Path, folder: pathlib.Path) -> dict:
    """What rank 0 found in one fresh process group; of several worlds at once, what the slowest found."""
    worlds = range(place.ranks) if contender.apart else [0]
    folders = [folder / f"world{i}" for i in worlds]
    running = [start(place, contender, o, init, folders[i], i if contender.alone else None) for i in worlds]
    try:
        outputs = [one.communicate(timeout=LIMIT_S)[0] for one in running]
    except subprocess.TimeoutExpired:
        for one in running:
            one.terminate()  # a launcher takes its ranks along
        raise SystemExit(f"{contender.name} did not end within {LIMIT_S} s") from None
    for one, output in zip(running, outputs):
        if one.returncode != 0:
            raise RoundFailed(contender, one.returncode, output)
    results = [json.loads((one / "result.json").read_text()) for one in folders]
    return max(results, key=lambda one: one["step_ms"]["median"])


def willing(place: Place, contenders: list[Contender], o: argparse.Namespace, init: pathlib.Path, folder: pathlib.Path) -> tuple[list[Contender], dict[str, str]]:
    """Those that do two steps, and what the others refused; so that nothing is found out in the last round."""
    short = argparse.Namespace(**{**vars(o), "steps": 2})
    able, refusals = [], {}
    for contender in contenders:
        try:
            run_round(place, contender, short, init, folder)
            able.append(contender)
        except RoundFailed as failure:
            if not failure.refused:
                raise
            refusals[contender.name] = failure.why
            progress(f"without {contender.name}: weft refuses. {failure.why}")
    return able, refusals


def run_rounds(place: Place, contenders: list[Contender], o: argparse.Namespace, init: pathlib.Path, folder: pathlib.Path) -> dict[str, list[dict]]:
    """All contenders in turn, o.rounds times; every second round backwards, so that a drift of the machine falls on all."""
    found: dict[str, list[dict]] = {contender.name: [] for contender in contenders}
    for number in range(o.rounds):
        for contender in contenders if number % 2 == 0 else contenders[::-1]:
            result = run_round(place, contender, o, init, folder)
            found[contender.name].append(result)
            progress(f"round {number + 1}/{o.rounds}  {contender.name:32s} median {result['step_ms']['median']:8.1f} ms  fastest {result['step_ms']['min']:8.1f} ms")
    return found


def summary(rounds: list[dict]) -> dict:
    """One contender's rounds as one row: the median of their medians, and their spread."""
    medians = [one["step_ms"]["median"] for one in rounds]
    row = {"median_ms": statistics.median(medians), "min_ms": min(one["step_ms"]["min"] for one in rounds), "lowest_ms": min(medians), "highest_ms": max(medians),
           "medians_ms": medians}
    for field in ("exposed_comm_ms", "bytes_sent", "peak_rss_bytes", "peak_device_bytes"):
        if field in rounds[0]:
            row[field] = statistics.median(one[field] for one in rounds)
    if "state_bytes" in rounds[0]:
        row["state_bytes"] = rounds[0]["state_bytes"]
    phases = [one["breakdown_ms"] for one in rounds if one.get("breakdown_ms")]
    if phases:
        row["breakdown_ms"] = {phase: statistics.median(one[phase] for one in phases) for phase in phases[0]}
    return row


def same_losses(found: dict[str, list[dict]], names: list[str], ranks: int) -> list[str]:
    """Those of `names` whose losses have the bits of the first. With two ranks all must: a sum of two has one order only, and a faster loop
    with other losses proves nothing."""
    expected = found[names[0]][0]["loss_bits"] if names else []
    same = [name for name in names if all(one["loss_bits"] == expected for one in found[name])]
    if ranks == 2 and same != names:
        raise SystemExit(f"not the same work: the losses of {names[0]} are not those of {'; '.join(name for name in names if name not in same)}")
    return same


def farthest_losses(found: dict[str, list[dict]], names: list[str], of: str, within: float) -> dict[str, float]:
    """How far the losses of `names` are from those of `of` at their farthest step, relatively; farther than `within` is another work."""
    expected = found[of][0]["loss"]
    farthest = {name: max(abs(a - b) / abs(b) for one in found[name] for a, b in zip(one["loss"], expected)) for name in names}
    for name, distance in farthest.items():
        if not distance <= within:
            raise SystemExit(f"not the same work: the losses of {name} are up to {distance:.2g} from those of {of}")
    return farthest
