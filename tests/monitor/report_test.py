"""`weft report` as a user runs it, and its page as a browser shows it: made-up runs of every size, and a real one."""

from __future__ import annotations

import json
import os
import pathlib
import re
import time

import pytest

from tests.monitor.browser import Browser, find_browser
from tests.monitor.report_runs import make_run

needs_browser = pytest.mark.skipif(find_browser() is None, reason="no Chromium here to open the page in: apt-get install chromium")
FITS = "document.documentElement.scrollWidth <= innerWidth"


def made(weft, *arguments: object) -> str:
    done = weft("report", *map(str, arguments))
    assert done.code == 0, done.err
    return done.out


def sound(browser: Browser, page: pathlib.Path) -> None:
    """No errors, nothing fetched, nothing wider than the window."""
    browser.open(page)
    assert browser.problems == []
    assert {url for url in browser.requests if not url.startswith("file:")} == set()
    assert browser.js(FITS)


@needs_browser
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [360, 1200])
def test_a_run_of_four_ranks(weft, tmp_path, width, dark):
    run = make_run(tmp_path / "run")
    made(weft, run)
    with Browser(width, 900, dark) as browser:
        sound(browser, run / "report.html")
        paper = browser.js("getComputedStyle(document.body).backgroundColor")
        assert (sum(map(int, re.findall(r"\d+", paper)[:3])) < 200) == dark
        text = browser.js("document.body.innerText")
        for piece in ("of 4 targets met", "rank 2 is slow", "Where the time goes", "Timeline of a step", "overlap_comm"):
            assert piece in text, piece
        assert "通信要等反向传播结束才开始" not in text
        browser.js("document.querySelector('[data-to=zh]').click()")
        text = browser.js("document.body.innerText")
        assert "通信要等反向传播结束才开始" in text and "Where the time goes" not in text
        assert browser.js(FITS) and browser.problems == []


def view_of(browser: Browser) -> tuple[float, float]:
    browser.settle()
    low, high = browser.js("document.querySelector('canvas.spans').dataset.view").split()
    return float(low), float(high)


def width_of(browser: Browser) -> float:
    low, high = view_of(browser)
    return high - low


@needs_browser
def test_the_timeline_zooms(weft, tmp_path):
    run = make_run(tmp_path / "run")
    made(weft, run)
    with Browser() as browser:
        sound(browser, run / "report.html")
        browser.js("document.querySelector('canvas.spans').scrollIntoView({block: 'center'})")
        box = browser.js("(r => ({x: r.x, y: r.y, w: r.width, h: r.height}))(document.querySelector('canvas.spans').getBoundingClientRect())")
        whole = width_of(browser)
        assert whole == 205e6  # the last step
        x, y = box["x"] + box["w"] * 0.6, box["y"] + 12

        browser.mouse("mouseMoved", x, y)
        assert "Rank 0, compute: backward" in browser.js("document.querySelector('#timeline output').textContent")
        browser.mouse("mouseWheel", x, y, deltaX=0, deltaY=-240)
        assert width_of(browser) == pytest.approx(whole * 0.8)
        browser.js("document.querySelector('#timeline .reset').click()")
        assert width_of(browser) == whole

        browser.mouse("mousePressed", x, y, button="left", clickCount=1)
        browser.mouse("mouseMoved", x + 100, y, button="left")
        browser.mouse("mouseReleased", x + 100, y, button="left", clickCount=1)
        dragged = width_of(browser)
        assert dragged == pytest.approx(whole * 100 / (box["w"] - 118), rel=0.02)
        before = view_of(browser)
        browser.js("document.querySelector('canvas.spans').focus()")
        browser.key("ArrowRight")
        assert view_of(browser)[0] > before[0]
        browser.key("+")
        assert width_of(browser) < dragged
        browser.key("0")
        assert width_of(browser) == whole
        assert browser.problems == []


@needs_browser
def test_the_pointer_reads_a_step(weft, tmp_path):
    run = make_run(tmp_path / "run")
    made(weft, run)
    with Browser() as browser:
        sound(browser, run / "report.html")
        for kind in ("loss", "rate", "parts"):
            box = browser.js(f"(r => [r.x + r.width / 2, r.y + r.height / 2])((e => (e.scrollIntoView({{block: 'center'}}), e.getBoundingClientRect()))"
                             f"(document.querySelector('figure[data-kind={kind}] .wide svg')))")
            browser.mouse("mouseMoved", *box)
            assert re.match(r"Step \d+: \w+", browser.js(f"document.querySelector('figure[data-kind={kind}] output').textContent")), kind


@needs_browser
def test_settings_are_found_and_ranks_sorted(weft, tmp_path):
    run = make_run(tmp_path / "run", ranks=64)
    made(weft, run)
    shown = "[...document.querySelectorAll('table.settings tbody tr')].filter(r => !r.hidden).length"
    with Browser() as browser:
        sound(browser, run / "report.html")
        assert browser.js(shown) == 7  # defaults are folded
        browser.js("(i => { i.value = 'setting_77'; i.dispatchEvent(new Event('input')); })(document.querySelector('.filter input'))")
        assert browser.js(shown) == 1
        assert browser.js("document.querySelectorAll('table.ranks tbody tr').length") == 64
        browser.js("[...document.querySelectorAll('table.ranks th')].find(t => t.textContent.includes('busy')).click()")
        assert browser.js("document.querySelector('table.ranks tbody tr').cells[0].dataset.value") == "32"  # the slow one


@needs_browser
@pytest.mark.parametrize("width", [360, 1200])
def test_sixty_four_ranks(weft, tmp_path, width):
    run = make_run(tmp_path / "run", steps=50, ranks=64)
    made(weft, run)
    with Browser(width) as browser:
        sound(browser, run / "report.html")
        assert browser.js("document.querySelector('canvas.spans').dataset.lanes") == "256"
        browser.js("(s => { s.value = '3'; s.dispatchEvent(new Event('change')); })(document.querySelector('.which'))")
        browser.settle()
        assert browser.js("document.querySelector('canvas.spans').dataset.lanes") == "4"


@needs_browser
def test_a_hundred_thousand_steps(weft, tmp_path):
    run = make_run(tmp_path / "run", steps=100_000)
    made(weft, run)
    assert (run / "report.html").stat().st_size < 1_000_000
    with Browser(360) as browser:
        sound(browser, run / "report.html")


@needs_browser
def test_runs_with_little_to_show(weft, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    (empty / "metrics.jsonl").write_text("")
    bad = make_run(tmp_path / "bad", steps=1, ranks=1)
    rows = [{"step": i, "loss": None} for i in range(5)]
    (bad / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows) + "{\"step\": 9, \"los")
    (bad / "timeline.json").write_text("{\"rows\": [")
    for run in (empty, bad, make_run(tmp_path / "one", steps=1, ranks=1)):
        made(weft, run)
        with Browser(360) as browser:
            sound(browser, run / "report.html")


def test_a_crashed_run_says_where_it_stopped(weft, tmp_path):
    run = make_run(tmp_path / "run", steps=321, status="running")
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"step":322,"lo')
    for name in ("metrics.jsonl", "ranks.json"):
        os.utime(run / name, (time.time() - 7200,) * 2)
    out = json.loads(made(weft, run, "--json"))
    assert (out["schema"], out["state"], out["last_step"]) == (1, "lost", 321)
    assert any("torn" in note for note in out["notes"])
    assert not (run / "report.html").exists()  # only with --out
    made(weft, run)
    text = (run / "report.html").read_text()
    assert "The run was lost after step 321" in text and "error: rank 2 died" in text


@needs_browser
def test_two_runs_side_by_side(weft, tmp_path):
    a, b = make_run(tmp_path / "a", ranks=1), make_run(tmp_path / "b", ranks=4, seed=2, steps=400)
    settings = json.loads((b / "settings.json").read_text())
    settings["settings"][1]["value"] = 3
    (b / "settings.json").write_text(json.dumps(settings))
    made(weft, a, b, "--out", tmp_path / "both.html")
    out = json.loads(made(weft, a, b, "--json"))
    assert out["schema"] == 1
    assert {"path": "zero_optimization.stage", "a": "2", "b": "3"} in out["settings"]
    step = next(number for number in out["numbers"] if number["name"] == "step_ms")
    assert step["percent"] == pytest.approx((step["b"] / step["a"] - 1) * 100)
    with Browser(360) as browser:
        sound(browser, tmp_path / "both.html")
        browser.resize(1200, 900)
        assert browser.js("document.querySelectorAll('figure[data-kind=loss] .wide .line, figure[data-kind=loss] .wide .other').length") == 2


def test_the_newest_of_a_folder_of_runs(weft, tmp_path):
    make_run(tmp_path / "runs" / "new", steps=3)
    old = make_run(tmp_path / "runs" / "a_old", steps=3)
    for file in old.iterdir():
        os.utime(file, (1, 1))
    assert json.loads(made(weft, tmp_path / "runs", "--json"))["name"] == "new"


def test_mistakes_are_answered_with_the_fix(weft, tmp_path):
    for arguments in (["nowhere"], [str(tmp_path)], [], ["nowhere", "--jsn"]):
        done = weft("report", *arguments)
        assert done.code == 2 and ("do:" in done.err or "--help" in done.err), done.err
    run = make_run(tmp_path / "run", steps=3)
    assert weft("report", str(run), "--out", str(tmp_path / "no" / "where.html")).code in (1, 2)
    done = weft("report", "--help")
    assert done.code == 0 and "Example:" in done.out


@needs_browser
def test_a_real_run_of_two_ranks(weft, tiny, tmp_path):
    done = weft("train", "-n", "2", *tiny, "--steps", "40", "--name", "real")
    assert done.code == 0, done.err
    page = tmp_path / "runs" / "real" / "report.html"
    first = page.read_text()
    made(weft, tmp_path / "runs")
    assert page.read_text() == first  # made again it is the same page
    out = json.loads(made(weft, tmp_path / "runs", "--json"))
    assert (out["state"], out["last_step"]) == ("finished", 40)
    assert {name for name, target in out["targets"].items() if target["mark"] == "not_known"} == set()
    assert out["overlap"]["comm_ms"] > 0 and out["parts_ms"]["backward"] > 0
    with Browser(360) as browser:
        sound(browser, page)
        assert "finished" in browser.js("document.body.innerText")
