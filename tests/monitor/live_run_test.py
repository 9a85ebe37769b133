"""A live page that is hammered while its run goes on: the run does not notice."""

from __future__ import annotations

import json
import pathlib
import subprocess
import threading

from hammer import REQUESTS, Hammer
from live_helpers import dashboard_port

STEPS = 400


def config_with(tmp_path: pathlib.Path, port: int | None) -> str:
    path = tmp_path / f"config_{port}.json"
    extra = {} if port is None else {"weft": {"dashboard": {"port": port, "token": "a-token-of-the-user"}}}
    path.write_text(json.dumps({"train_micro_batch_size_per_gpu": 2, "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}}, **extra}))
    return str(path)


def test_a_hammered_page_changes_no_bit_of_the_run(weft, build_dir, tmp_path, tiny):
    words = ["train", "-n", "2", *tiny, "--steps", str(STEPS), "--data", "random", "--json", "-"]
    quiet = weft(*words, "--config", config_with(tmp_path, None), "--name", "quiet")
    assert quiet.code == 0, quiet.err

    command = [str(build_dir / "bin" / "weft"), *words, "--config", config_with(tmp_path, 0), "--name", "hammered"]
    run = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    answer: list[tuple[str, str]] = []
    reader = threading.Thread(target=lambda: answer.append(run.communicate()))
    reader.start()
    try:
        hammer = Hammer(dashboard_port(tmp_path / "runs" / "hammered"), per_s=2000)
        reader.join(120)
        hammer.end()
    finally:
        run.kill()
        reader.join(10)
    assert run.returncode == 0, answer[0][1]
    assert hammer.opened >= len(REQUESTS), "nobody was hammered: the run was over first"
    assert json.loads(answer[0][0])["loss"] == json.loads(quiet.out)["loss"]
