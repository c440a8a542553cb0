"""The page in a real browser: nothing fails, nothing is fetched, the slider moves what it says it moves."""

import re

import pytest

from quorate.report.page import page_of
from tests.report.browser import Browser, chromium
from tests.report.cases import extras

pytestmark = pytest.mark.skipif(chromium() is None, reason="Chromium is not installed (apt-get install chromium)")


@pytest.fixture(scope="module")
def page(hostile, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "index.html"
    path.write_text(page_of(hostile, extras()))
    with Browser(path.parent / "profile") as browser:
        browser.open(path.as_uri())
        yield browser


def test_no_script_fails_and_no_asset_is_missing(page):
    assert page.of("Runtime.exceptionThrown") == []
    assert [entry for entry in page.of("Log.entryAdded") if entry["entry"]["level"] == "error"] == []
    assert page.of("Network.loadingFailed") == []
    asked = [request["request"]["url"] for request in page.of("Network.requestWillBeSent")]
    assert [url for url in asked if not url.startswith(("data:", "file:"))] == []
    assert len([url for url in asked if url.startswith("file:")]) == 1
    assert page.run("Array.from(document.images).every(i => i.complete && i.naturalWidth > 0)")
    assert page.run("document.querySelectorAll('[onerror]').length") == 0


def test_the_slider_moves_the_operating_point(page, hostile):
    pick = "document.querySelectorAll('[data-pick]')"
    place = "document.querySelector('svg[data-chart=cost-lazy] .here').getAttribute('cx')"
    for i, sweep in enumerate(hostile["sweeps"]):
        page.run(f"{pick}[{i}].click()")
        seen = []
        for g in (0, 40, len(sweep["thresholds"]) - 1):
            page.run(
                f"(s => {{ s.value = {g}; s.dispatchEvent(new Event('input')); }})(document.getElementById('slider'))"
            )
            g = min(g, len(sweep["thresholds"]) - 1)
            assert float(page.run("document.getElementById('threshold').textContent")) == pytest.approx(
                sweep["thresholds"][g], rel=1e-3
            )
            said = page.run("document.getElementById('readings').textContent")
            assert f"{100 * sweep['accuracy'][g]:.2f} %" in said
            exits = page.run("document.getElementById('exits-said').textContent")
            shares = [float(x) for x in re.findall(r": ([\d.]+) %", exits)]
            told = [*(left[g] for left in sweep["left"]), sweep["forced"][g]]
            assert shares == pytest.approx([100 * share for share in told], abs=0.06)
            seen.append(page.run(place))
        if "arrival" not in sweep["group"] and len(set(sweep["costs"]["lazy"])) > 10:
            assert len(set(seen)) > 1, sweep["group"]
    assert page.run("document.querySelectorAll('[aria-pressed=true]').length") == 1


def test_the_ring_stands_on_the_line(page, hostile):
    at = next(i for i, s in enumerate(hostile["sweeps"]) if s["group"] == "SQUAD, mean")
    page.run(f"document.querySelectorAll('[data-pick]')[{at}].click()")
    near = page.run("""(() => {
        const svg = document.querySelector('svg[data-chart=cost-lazy]'), here = svg.querySelector('.here');
        const mark = svg.querySelector('.mark[data-series="SQUAD, mean"] circle');
        const far = name => here.getAttribute(name) - mark.getAttribute(name);
        return Math.hypot(far('cx'), far('cy'));
    })()""")
    assert near < 0.5


def test_it_fits_a_phone_and_the_dark(page):
    light = page.run("getComputedStyle(document.body).backgroundColor")
    page.call("Emulation.setDeviceMetricsOverride", width=380, height=800, deviceScaleFactor=1, mobile=True)
    assert page.run("document.documentElement.scrollWidth") <= 380
    page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    assert page.run("getComputedStyle(document.body).backgroundColor") != light
    page.call("Emulation.setEmulatedMedia", media="print", features=[])
    assert page.run("getComputedStyle(document.getElementById('panel')).display") == "none"
