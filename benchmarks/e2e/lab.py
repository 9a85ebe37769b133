"""The hosts of tools/netlab as the benchmarks use them, and the time below which no step between hosts can come."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import subprocess
import sys

NETLAB = pathlib.Path(__file__).resolve().parents[2] / "tools/netlab"


def enter_lab(num_hosts: int) -> list[str]:
    """The names of the hosts; starts this program again inside a lab where it is not in one yet. It must take --in-lab and ignore it."""
    if "--in-lab" not in sys.argv:
        os.execv(NETLAB, [str(NETLAB), "with", str(num_hosts), "--", sys.executable, sys.argv[0], "--in-lab", *sys.argv[1:]])
    return [f"host{i}" for i in range(num_hosts)]


def link_rate(rate: str) -> float:
    """Sets the rate of every link, such as "1000mbit"; bits per second that TCP then moves."""
    subprocess.run([NETLAB, "shape", "--rate", rate], check=True)
    done = subprocess.run([NETLAB, "rate", "--json"], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)["bits_per_second"]


@dataclasses.dataclass
class Bound:
    """What a step takes when the wire is hidden as far as it can be: behind backward; with ZeRO, half of it behind forward."""

    phases_ms: dict[str, float]
    gradient_bytes: int
    ranks: int
    hosts: int = 0  # 0: one rank on each

    def wire_ms(self, bits_per_s: float, wire: str = "fp32") -> float:
        hosts = self.hosts or self.ranks
        sent = 2 * (hosts - 1) / hosts * self.gradient_bytes * (0.5 if wire == "bf16" else 1)
        return sent * 8 / bits_per_s * 1e3

    def step_ms(self, bits_per_s: float, wire: str = "fp32") -> float:
        return self.phases_ms["forward"] + max(self.phases_ms["backward"], self.wire_ms(bits_per_s, wire)) + self.phases_ms["optimizer"]

    def zero_ms(self, bits_per_s: float = float("inf")) -> float:
        """Gradients are scattered during backward, parameters gathered during forward, and a rank updates its part only."""
        half = self.wire_ms(bits_per_s) / 2
        return max(self.phases_ms["forward"], half) + max(self.phases_ms["backward"], half) + self.phases_ms["optimizer"] / self.ranks
