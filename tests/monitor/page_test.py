"""The live page in a real browser: no complaint on its console, live, on a phone, in the dark, with many ranks and many steps."""

from __future__ import annotations

import contextlib
import json
import pathlib
import re
import signal
import subprocess
import sys
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from browser import Browser, find_browser  # noqa: E402
from fake_run import FakeRun  # noqa: E402
from live_helpers import dashboard_url, wait_until, watching  # noqa: E402

pytestmark = [pytest.mark.skipif(find_browser() is None, reason="no chromium to open the page with: apt-get install chromium"),
              pytest.mark.xdist_group("page")]

CHARTS = "document.querySelectorAll('.uplot').length"
NO_SIDEWAYS_SCROLL = "document.documentElement.scrollWidth <= innerWidth"


@pytest.fixture(scope="module")
def chromium():
    with Browser() as page:
        yield page


@pytest.fixture
def page(chromium):
    """A tab as it comes; whatever a test does, its console must stay empty."""
    chromium.open("about:blank")
    chromium.problems.clear()
    chromium.resize(1240, 900)
    chromium.set_dark(False)
    yield chromium
    chromium.open("about:blank")
    assert chromium.problems == []


def new_run(folder: pathlib.Path, steps: int = 300, **options) -> FakeRun:
    return FakeRun(folder, start_s=time.time() - steps * 0.2, **options).write_all(steps)


@contextlib.contextmanager
def shown(page, build_dir: pathlib.Path, run: FakeRun, *flags: str):
    """The run's page; it is left before its server ends, which the browser would complain about."""
    with watching(build_dir, run.folder, *flags) as server:
        page.open(server.url)
        yield server
        page.open("about:blank")


def last_point(page) -> str:
    """What the keyboard reads off the end of the first curve; a figure that is drawn anew has lost the focus."""
    page.js("document.querySelector('.plot')?.focus()")
    page.key("End")
    return page.js("document.querySelector('figure output')?.innerText || ''")


def text_of(page, selector: str) -> str:
    return page.js(f"document.querySelector({selector!r}).innerText")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_it_shows_the_run(page, build_dir, tmp_path, dark):
    run = new_run(tmp_path / "demo", ranks=8, slow=5, gpu=True)
    page.set_dark(dark)
    with shown(page, build_dir, run):
        page.wait_for(f"{CHARTS} >= 6")
        assert text_of(page, "h1") == "demo" and text_of(page, "#status") == "running"
        assert "300" in text_of(page, "#figures") and "not a number" not in page.js("document.body.innerText")
        assert page.js("[...document.querySelectorAll('.verdict')].map(v => v.className.split(' ').pop())") == ["good", "good", "good"]
        assert "Rank 5 is 12.5 % slower" in text_of(page, "#warnings")
        assert page.js("document.querySelector('#tiles .slow b').innerText") == "rank 5"
        assert page.js("document.querySelectorAll('#log .warning').length") == 1
        paper = page.js("getComputedStyle(document.body).backgroundColor")
        assert paper == ("rgb(19, 22, 25)" if dark else "rgb(250, 249, 246)")
        # The curves take the scheme's colours too, and follow a change of it.
        drawn = "document.querySelector('.uplot canvas').toDataURL()"
        before = page.js(drawn)
        page.set_dark(not dark)
        page.wait_for(f"{drawn} !== {before!r}")
        assert page.js(NO_SIDEWAYS_SCROLL)


def test_it_goes_on_with_the_run(page, build_dir, tmp_path):
    run = new_run(tmp_path / "demo", steps=40)
    with shown(page, build_dir, run):
        page.wait_for(f"{CHARTS} >= 4 && document.querySelector('#figures dd').firstChild.data === '40'")
        before = page.js("document.querySelector('.uplot canvas').toDataURL()")
        run.add_rows(5)
        page.wait_for("document.querySelector('#figures dd').firstChild.data === '45'")
        page.wait_for(f"document.querySelector('.uplot canvas').toDataURL() !== {before!r}")
        run.log("[weft rank 0] [WARN] <img src=x onerror=alert(1)> careful")
        page.wait_for("document.querySelector('#log .warning')?.innerText.includes('<img src=x')")
        assert page.js("document.querySelectorAll('img').length") == 0, "text of the run is never markup"
        run.result("finished")
        page.wait_for("document.querySelector('#status').innerText === 'finished'")
        (run.folder / "report.html").write_text("<p>r</p>")
        page.wait_for("!document.querySelector('#report').hidden")


def test_a_resumed_run_is_drawn_anew(page, build_dir, tmp_path):
    run = new_run(tmp_path / "demo", steps=200)
    with shown(page, build_dir, run):
        page.wait_for(f"{CHARTS} >= 4")
        wait_until(lambda: last_point(page).startswith("Step 200:"))
        (run.folder / "metrics.jsonl").write_text("")
        run.step = 0
        run.add_rows(20)
        wait_until(lambda: last_point(page).startswith("Step 20:"))


def test_a_phone_needs_no_sideways_scroll(page, build_dir, tmp_path):
    run = new_run(tmp_path / ("a_long_name_" * 8), ranks=64, slow=17)
    run.log("x" * 500)
    page.resize(360, 740)
    with shown(page, build_dir, run):
        page.wait_for(f"{CHARTS} >= 4 && document.querySelectorAll('#tiles li').length === 64")
        assert page.js(NO_SIDEWAYS_SCROLL), page.js("document.documentElement.scrollWidth")


def test_sixty_four_ranks_in_one_view(page, build_dir, tmp_path):
    run = new_run(tmp_path / "demo", ranks=64, slow=17)
    run.write_ranks(missing=(40,))
    with shown(page, build_dir, run):
        page.wait_for("document.querySelectorAll('#tiles li').length === 64")
        assert page.js("document.querySelector('#ranks').offsetHeight") < 700
        assert page.js("document.querySelectorAll('#tiles .silent').length") == 1
        page.js("document.querySelectorAll('#tiles li')[17].focus()")
        assert "Rank 17 on node-c: 12.5 % slower in backward (blocks.3)" in text_of(page, "#rank-detail")
        page.key("Tab")
        assert text_of(page, "#rank-detail").startswith("Rank 18")


def test_a_hundred_thousand_steps(page, build_dir, tmp_path):
    run = new_run(tmp_path / "demo", steps=100_000)
    with shown(page, build_dir, run):
        page.wait_for(f"{CHARTS} >= 4")
        assert "lowest to highest" in text_of(page, "#charts")
        wait_until(lambda: re.match(r"Steps [\d,]+.100,000: highest", last_point(page)))
        run.start_s = time.time() - 100_001 * run.step_s
        run.add_rows(1)
        page.wait_for("document.querySelector('#figures dd').firstChild.data === '100,001'")


def test_a_run_that_has_not_begun(page, build_dir, tmp_path):
    run = FakeRun(tmp_path / "demo")
    run.result()
    with shown(page, build_dir, run):
        page.wait_for("document.querySelector('#note').innerText.includes('no step has ended yet')")
        run.add_rows(1)
        page.wait_for(f"{CHARTS} >= 4")


def test_a_lost_connection_is_said_and_found_again(page, build_dir, tmp_path):
    run = new_run(tmp_path / "demo", steps=30)
    with watching(build_dir, run.folder) as server:
        page.open(server.url)
        page.wait_for(f"{CHARTS} >= 4")
        assert page.js("document.querySelector('#lost').hidden")
    page.wait_for("!document.querySelector('#lost').hidden")
    run.add_rows(1)
    with watching(build_dir, run.folder, "--port", str(server.port)):
        page.wait_for("document.querySelector('#lost').hidden && document.querySelector('#figures dd').firstChild.data === '31'")
        page.open("about:blank")
    forget_the_browsers_own_complaints(page)


def forget_the_browsers_own_complaints(page) -> None:
    """While nobody answers the browser itself says so on the console; the page cannot keep it from that."""
    page.problems[:] = [text for text in page.problems if "ERR_" not in text]


def test_another_run_at_the_same_address_is_drawn_from_its_start(page, build_dir, tmp_path):
    with watching(build_dir, new_run(tmp_path / "long", steps=30).folder) as server:
        page.open(server.url)
        page.wait_for(f"{CHARTS} >= 4 && curves.step.length === 30")
    page.wait_for("!document.querySelector('#lost').hidden")
    with watching(build_dir, new_run(tmp_path / "short", steps=12).folder, "--port", str(server.port)):
        page.wait_for("document.querySelector('h1').innerText === 'short' && curves.step.length === 12")
        assert page.js("curves.step") == list(range(1, 13))
        assert page.js("curves.columns.loss.mean.length") == 12
        wait_until(lambda: last_point(page).startswith("Step 12:"))
        page.open("about:blank")
    forget_the_browsers_own_complaints(page)


def test_what_another_run_does_not_record_is_no_longer_drawn(page, build_dir, tmp_path):
    with watching(build_dir, new_run(tmp_path / "long", steps=300).folder) as server:
        page.open(server.url)
        page.wait_for(f"{CHARTS} >= 4 && [...charts.keys()].includes('norm')")
        page.js("charts.get('loss').zoomed = true")
    page.wait_for("!document.querySelector('#lost').hidden")
    short = FakeRun(tmp_path / "short", start_s=time.time() - 5)
    short.result()
    short.add_rows(12, grad_norm=None)
    with watching(build_dir, short.folder, "--port", str(server.port)):
        page.wait_for("document.querySelector('h1').innerText === 'short' && curves.step.length === 12")
        page.wait_for("![...charts.keys()].includes('norm')")
        assert "Gradient norm" not in text_of(page, "#charts")
        assert page.js("charts.get('loss').zoomed") is False
        page.open("about:blank")
    forget_the_browsers_own_complaints(page)


def test_curves_that_could_not_be_had_are_asked_for_again_though_the_run_has_ended(page, build_dir, tmp_path):
    run = new_run(tmp_path / "demo")
    run.result("finished")
    with shown(page, build_dir, run):
        page.wait_for(f"{CHARTS} >= 4")
        page.js("""{ const right = fetch; let failed = false;
                     fetch = (...all) => failed || !String(all[0]).includes('/api/series') ? right(...all) : (failed = true, Promise.reject('busy'));
                     empty(); drawCharts(); fetchCurves(); }""")
        page.wait_for(f"{CHARTS} >= 4 && curves.step.length === 300")


@pytest.mark.serial  # the run gives a page so many seconds to take the last state, and a browser with company needs more
@pytest.mark.parametrize("ending", ["finished", "stopped"])
def test_a_run_that_ends_with_its_page_says_how_and_where_the_report_is(page, build_dir, tmp_path, tiny, ending):
    steps = 10_000 if ending == "finished" else 1_000_000
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"train_micro_batch_size_per_gpu": 2, "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}}, "weft": {"dashboard": {"port": 0}}}))
    command = [str(build_dir / "bin" / "weft"), "train", *tiny, "--steps", str(steps), "--data", "random", "--config", str(config), "--name", "mine"]
    run = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        page.open(dashboard_url(tmp_path / "runs" / "mine"))
        page.wait_for("state && state.status === 'running' && state.step > 0")
        if ending == "stopped":
            run.send_signal(signal.SIGINT)
        said = run.communicate(timeout=120)[1]
    finally:
        run.kill()
        run.wait()
    assert run.returncode == (0 if ending == "finished" else -signal.SIGINT), said
    page.wait_for("!document.querySelector('#ended').hidden")
    assert page.js("document.querySelector('#lost').hidden")
    assert text_of(page, "#status") == ending
    rows = (tmp_path / "runs" / "mine" / "metrics.jsonl").read_text().splitlines()
    assert page.js("state.step") == json.loads(rows[-1])["step"]
    assert page.js("curves.step.at(-1)") == json.loads(rows[-1])["step"], "the curves come to the end too"
    assert text_of(page, "#ended") == "The run has ended; its page is no longer served. Its report is runs/mine/report.html."
    assert page.js("document.querySelector('#report').hidden"), "a link that leads nowhere"
    page.open("about:blank")
    forget_the_browsers_own_complaints(page)


def test_what_a_silence_is_looked_into_with_is_shown(page, build_dir, tmp_path):
    """Half a minute without an event; the page asks by itself, and the answer may be news."""
    run = new_run(tmp_path / "demo", steps=30)
    with shown(page, build_dir, run):
        page.wait_for(f"{CHARTS} >= 4")
        page.js("state.name = 'old'; showHeader(); heard_ms = 0")
        page.wait_for("document.querySelector('h1').innerText === 'demo'", 10)


def test_without_a_gpu_the_use_of_the_processor_is_drawn(page, build_dir, tmp_path):
    run = new_run(tmp_path / "demo", steps=60)
    run.result(threads=4)
    with shown(page, build_dir, run):
        page.wait_for(f"{CHARTS} >= 6")
        found = page.js("[...document.querySelectorAll('figure')].map(f => f.innerText).find(t => t.startsWith('Utilisation'))")
        assert found and "CPU" in found, page.js("document.querySelector('#charts').innerText")
        assert page.js("cpuUse().every(v => Math.abs(v - 102 / 4) < 1e-6)"), "of its four threads"


def test_numbers_beyond_all_bounds_do_not_break_the_page(page, build_dir, tmp_path):
    run = new_run(tmp_path / "demo", steps=30)
    run.add_rows(1, tokens_per_s=1e300, rss_bytes=1e300)
    page.resize(360, 740)
    with shown(page, build_dir, run):
        page.wait_for(f"{CHARTS} >= 4 && document.querySelector('#figures').innerText.includes('1.00e+300')")
        assert page.js(NO_SIDEWAYS_SCROLL)


def test_a_token_goes_into_a_cookie(page, build_dir, tmp_path):
    run = new_run(tmp_path / "demo", steps=30)
    with shown(page, build_dir, run, "--token", "abc") as server:
        page.wait_for(f"{CHARTS} >= 4")
        assert page.js("location.href") == f"http://127.0.0.1:{server.port}/"
        page.call("Page.reload")
        page.wait_for(f"document.readyState === 'complete' && {CHARTS} >= 4")


def test_the_keyboard_reaches_everything(page, build_dir, tmp_path):
    run = new_run(tmp_path / "demo", ranks=2)
    with shown(page, build_dir, run):
        page.wait_for(f"{CHARTS} >= 4")
        seen = set()
        for _ in range(30):
            page.key("Tab")
            seen.add(page.js("document.activeElement.className || document.activeElement.id || document.activeElement.tagName"))
        assert {"plot", "log", "A"} <= seen and seen & {"good", "waiting", "slow"}, seen
        for chart in page.js("[...document.querySelectorAll('.plot')].map(p => p.getAttribute('aria-label'))"):
            assert "now" in chart and "unknown" not in chart
