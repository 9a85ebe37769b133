"""Which tests in Python go with which folder. Short ones that a change is likely to break; CI runs them all."""

from __future__ import annotations

from pathlib import Path
from typing import Iterator, NamedTuple


class Entry(NamedTuple):
    prefix: str  # how the path of a changed file begins
    tests: tuple[str, ...]
    targets: tuple[str, ...] = ()  # what they run of the build


PRODUCT = ("weft", "weft-worker")
# The first that fits counts.
MAP = (
    Entry("weft/config/", ("tests/config",), PRODUCT),
    Entry("weft/doctor/", ("tests/config", "tests/cli/check_test.py"), PRODUCT),
    Entry("weft/cli/front/", ("tests/cli/front_test.py", "tests/cli/check_test.py"), PRODUCT),
    Entry("weft/cli/", ("tests/cli/train_test.py",), PRODUCT),
    Entry("weft/monitor/live/", ("tests/monitor/live_test.py",), PRODUCT),
    Entry("weft/monitor/", ("tests/monitor/report_test.py", "tests/monitor/trace_test.py"), (*PRODUCT, "trace_sample", "sinks_sample")),
    Entry("weft/launcher/", ("tests/cli/run_test.py",), PRODUCT),
    Entry("weft/checkpoint/foreign/", ("tests/checkpoint",), PRODUCT),
    Entry("weft/checkpoint/", ("tests/cli/ckpt_test.py",), PRODUCT),
    Entry("weft/optim/", ("tests/numerics/optim_vs_python_test.py",), ("optim_steps",)),
    Entry("weft/data/", ("tests/numerics/sampler_vs_python_test.py",), ("data_sampler_order",)),
    Entry("weft/engine/", ("tests/numerics/gpt_vs_python_test.py",), PRODUCT),
    Entry("examples/", ("tests/cli/examples_test.py",), PRODUCT),
    Entry("web/", ("tests/monitor/page_test.py",), PRODUCT),
    Entry("tests/config/", ("tests/config",), PRODUCT),
    Entry(".ci/", ("tests/house/ci_test.py",)),
    Entry("CONTRIBUTING.md", ("tests/house/ci_test.py", "tests/house/docs_test.py")),
    Entry("docs/", ("tests/house/docs_test.py",)),
    Entry("README.md", ("tests/house/docs_test.py",)),
)


def entries_for(root: Path, name: str) -> Iterator[Entry]:
    """A test stands for itself, a tool for the test that has its name."""
    if name.startswith("tests/") and name.endswith("_test.py"):
        yield Entry(name, (name,) if (root / name).is_file() else (), () if name.startswith("tests/house/") else PRODUCT)
        return
    if name.startswith("tools/"):
        test = f"tests/house/{name.split('/')[1].removesuffix('.py').removesuffix('_lib')}_test.py"
        yield Entry(name, (test,) if (root / test).is_file() else ())
        return
    yield from [entry for entry in MAP if name.startswith(entry.prefix)][:1]
