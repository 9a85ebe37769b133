#!/usr/bin/env python3
"""Takes the pictures of report.md and watching.md from runs made for them: real ranks, a real browser.

    make && .venv/bin/python docs/images/make_run_pictures.py [--folder DIR] [--out docs/images]

Three runs of the same GPT on two ranks, on Python's own library: one reduces after the backward pass, one behind it (the report, the comparison), and one
whose page is watched while it goes on, with a rank that is stopped for a part of each tenth of a second. The page of 64 ranks is of a folder that the
tests make up. Some three minutes. Needs Chromium.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "monitor"))
from browser import Browser  # noqa: E402
from fake_run import FakeRun  # noqa: E402
from live_helpers import dashboard_url, watching  # noqa: E402

WEFT = ROOT / "build/release/bin/weft"
MODEL = "--dim 256 --layers 4 --heads 4 --seq 64 --micro-batch 4 --threads 1".split()


def config(folder: pathlib.Path, name: str, **zero) -> str:
    path = folder / f"{name}.json"
    path.write_text(json.dumps({"train_micro_batch_size_per_gpu": 4, "gradient_clipping": 1.0, "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}},
                                "zero_optimization": zero, "weft": {"dashboard": {"port": 0}}}, indent=2))
    return str(path)


def train(folder: pathlib.Path, name: str, steps: int, settings: str) -> subprocess.Popen:
    command = [str(WEFT), "train", "-n", "2", *MODEL, "--data", "texts", "--steps", str(steps), "--config", settings, "--name", name, "--save", f"{name}_states",
               "--save-every", "50"]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def finished(run: subprocess.Popen) -> None:
    if run.wait(900) != 0:
        raise SystemExit(f"a run ended with {run.returncode}: {run.args}")


def part(page: Browser, selector: str, margin: int = 12) -> dict:
    box = page.js(f"(() => {{ const b = document.querySelector({selector!r}).getBoundingClientRect();"
                  " return {x: b.x + scrollX, y: b.y + scrollY, width: b.width, height: b.height}; })()")
    return {"x": max(0, box["x"] - margin), "y": max(0, box["y"] - margin), "width": box["width"] + 2 * margin, "height": box["height"] + 2 * margin}


def reports(folder: pathlib.Path, out: pathlib.Path) -> None:
    subprocess.run([str(WEFT), "report", "runs/after_backward", "runs/behind_backward", "--out", "compare.html"], cwd=folder, check=True)
    with Browser(1200, 900) as page:
        page.open(folder / "runs/behind_backward/report.html")
        page.screenshot(out / "report_top.png", clip={"x": 0, "y": 0, "width": 1200, "height": 900})
        page.screenshot(out / "report_timeline.png", clip=part(page, "#timeline"))
        page.open(folder / "compare.html")
        page.screenshot(out / "report_compare.png", clip={"x": 0, "y": 0, "width": 1200, "height": 1750})


class Brake:
    """Stops a process for a quarter of each tenth of a second."""

    def __init__(self, pid: int):
        self._pid, self._over = pid, threading.Event()
        self._thread = threading.Thread(target=self._brake)
        self._thread.start()

    def _brake(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            while not self._over.wait(0.075):
                os.kill(self._pid, signal.SIGSTOP)
                time.sleep(0.025)
                os.kill(self._pid, signal.SIGCONT)

    def end(self) -> None:
        self._over.set()
        self._thread.join()


def rank_process(run: subprocess.Popen, rank: int) -> int:
    pids = map(int, pathlib.Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split())
    return next(pid for pid in pids if f"RANK={rank}".encode() in pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"))


def live(folder: pathlib.Path, out: pathlib.Path) -> None:
    run = train(folder, "watched", 1_000_000, config(folder, "watched", stage=2, overlap_comm=True, reduce_bucket_size=500_000))
    brake = None
    try:
        with Browser(1200, 900) as page:
            page.open(dashboard_url(folder / "runs/watched"))
            page.wait_for("Number((document.querySelector('#figures').innerText.match(/[0-9,]+/) || ['0'])[0].replace(',', '')) >= 200", 300)
            page.screenshot(out / "live_page.png", clip={"x": 0, "y": 0, "width": 1200, "height": 900})
            page.set_dark(True)
            page.settle()
            page.screenshot(out / "live_dark.png", clip={"x": 0, "y": 0, "width": 1200, "height": 900})
            page.set_dark(False)
            brake = Brake(rank_process(run, 1))
            page.wait_for("document.querySelector('#rank-key').innerText.includes('slow')", 120)
            page.js("document.querySelector('#tiles').lastElementChild.focus()")
            page.settle()
            page.screenshot(out / "live_ranks.png", clip=both(part(page, "#ranks"), part(page, "#log-card")))
            page.resize(360, 780)
            page.settle()
            time.sleep(2)
            page.screenshot(out / "live_phone.png", clip={"x": 0, "y": 0, "width": 360, "height": 780})
    finally:
        if brake:
            brake.end()
        run.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            run.wait(30)


def many_ranks(folder: pathlib.Path, out: pathlib.Path) -> None:
    steps = 100_000
    run = FakeRun(folder / "many", start_s=time.time() - 0.2 * steps, ranks=64, slow=17).write_all(steps)
    run.write_ranks(missing=(40,))
    with watching(WEFT.parents[1], run.folder) as server, Browser(1200, 900) as page:
        page.open(server.url)
        page.wait_for("document.querySelectorAll('#tiles li').length === 64")
        page.js("document.querySelectorAll('#tiles li')[17].focus()")
        page.settle()
        page.screenshot(out / "live_64_ranks.png", clip=both(part(page, "#charts"), part(page, "#ranks")))


def both(above: dict, below: dict) -> dict:
    return above | {"height": below["y"] + below["height"] - above["y"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "docs/images")
    parser.add_argument("--folder", type=pathlib.Path, help="where the runs are kept; a temporary one unless told")
    o = parser.parse_args()
    with tempfile.TemporaryDirectory() as temp:
        folder = o.folder or pathlib.Path(temp)
        folder.mkdir(parents=True, exist_ok=True)
        texts = folder / "texts"
        texts.mkdir(exist_ok=True)
        for path in pathlib.Path(os.__file__).parent.glob("*.py"):
            shutil.copy(path, texts / f"{path.stem}.txt")
        finished(train(folder, "after_backward", 300, config(folder, "after_backward", stage=0, overlap_comm=False, reduce_bucket_size=500_000)))
        finished(train(folder, "behind_backward", 300, config(folder, "behind_backward", stage=2, overlap_comm=True, reduce_bucket_size=500_000)))
        reports(folder, o.out)
        live(folder, o.out)
        many_ranks(folder, o.out)


if __name__ == "__main__":
    main()
