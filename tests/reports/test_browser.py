"""The HTML report in a real browser, driven by DevTools messages over two pipes: no further package is needed."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

Command = Callable[..., subprocess.CompletedProcess[bytes]]

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
HOW = "no Chromium: apt-get install chromium (or set CHROMIUM to a browser of that family)"


def find() -> str | None:
    """Give the path of a browser, None where there is none."""
    return os.environ.get("CHROMIUM") or next((found for name in NAMES if (found := shutil.which(name))), None)


class Page:
    """One page: ``requests`` and ``complaints`` collect what it asked for and what its console said."""

    def __init__(self, reading: int, writing: int) -> None:
        self._reading, self._writing = reading, writing
        self._numbers = itertools.count(1)
        self._held = b""
        self._session: str | None = None
        self.requests: list[str] = []
        self.complaints: list[str] = []

    def send(self, method: str, **params: Any) -> Any:
        """Send one command and give its result; what happens meanwhile is collected."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._writing, json.dumps(message).encode() + b"\0")
        while True:
            told = self._next()
            if told.get("id") == number:
                assert "error" not in told, told
                return told["result"]
            self._happened(told)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._held:
            got = os.read(self._reading, 1 << 20)
            assert got, "the browser went away"
            self._held += got
        message, _, self._held = self._held.partition(b"\0")
        told: dict[str, Any] = json.loads(message)
        return told

    def _happened(self, told: dict[str, Any]) -> None:
        params = told.get("params", {})
        match told.get("method"):
            case "Network.requestWillBeSent":
                self.requests.append(params["request"]["url"])
            case "Log.entryAdded":
                self.complaints.append(params["entry"]["text"])
            case "Runtime.exceptionThrown" | "Runtime.consoleAPICalled":
                self.complaints.append(json.dumps(params)[:500])

    def open(self, path: Path) -> None:
        """Open a file and wait until it is there."""
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Network", "Log", "Runtime", "Page"):
            self.send(f"{domain}.enable")
        self.send("Page.navigate", url=path.as_uri())
        self.run("new Promise(done => document.readyState === 'complete' ? done() : addEventListener('load', done))")

    def run(self, script: str) -> Any:
        """Evaluate a script in the page and give its value."""
        told = self.send("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in told, told
        return told["result"].get("value")

    def press(self, key: str, code: int) -> None:
        """Press and release a key."""
        words = {"text": "\r"} if key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, **words)


@contextmanager
def browser(profile: Path) -> Iterator[Page]:
    """Start a browser with an empty profile, and end it."""
    command = find()
    assert command is not None
    to_browser, writing = os.pipe()
    reading, from_browser = os.pipe()

    def pipes() -> None:  # the browser reads its commands from 3 and answers on 4
        one, two = os.dup(to_browser), os.dup(from_browser)
        os.dup2(one, 3)
        os.dup2(two, 4)

    arguments = ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", f"--user-data-dir={profile}"]
    process = subprocess.Popen(
        [command, *arguments, "--disable-background-networking", "--no-first-run", "--window-size=1200,900"],
        preexec_fn=pipes,
        close_fds=False,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(to_browser)
    os.close(from_browser)
    try:
        yield Page(reading, writing)
    finally:
        process.kill()
        process.wait()
        os.close(reading)
        os.close(writing)


pytestmark = pytest.mark.skipif(find() is None, reason=HOW)


@pytest.fixture(scope="module")
def page(state: Path, command: Command, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """The report over all samples, its text included, opened in a browser."""
    home = tmp_path_factory.mktemp("browser")
    done = command("report", "--state-dir", state, "-q", "-o", home / "report.html", "--include-text")
    assert done.returncode == 0
    with browser(home / "profile") as opened:
        opened.open(home / "report.html")
        yield opened


FIRST_CELLS = "[...document.querySelectorAll('#sessions tbody tr')].map(row => row.cells[1].dataset.value)"


def test_asks_for_nothing(page: Page) -> None:
    """Opening the page makes one request, for the file itself, and nothing is said on the console."""
    assert [url for url in page.requests if not url.startswith("file:")] == []
    assert len(page.requests) == 1
    assert page.complaints == []


def test_policy_holds(page: Page) -> None:
    """The page's own policy refuses a script, a style and an address that would be slipped in."""
    before = len(page.requests)
    ran = page.run(
        """(() => { const script = document.createElement('script'); script.textContent = 'window.slipped = 1';
        document.body.append(script); const image = new Image(); image.src = 'https://example.org/x.png';
        document.body.append(image); script.remove(); image.remove(); return window.slipped ?? 0; })()"""
    )

    assert ran == 0
    assert [url for url in page.requests[before:] if not url.startswith("https://example.org")] == []
    assert any("Content Security Policy" in words for words in page.complaints)
    page.complaints.clear()


def test_sorts_by_keyboard(page: Page) -> None:
    """A column sorts when Enter is pressed on its heading, first down, then up, and says so to a screen reader."""
    page.run("document.querySelectorAll('#sessions thead button')[1].focus()")
    page.press("Enter", 13)
    down = page.run(FIRST_CELLS)
    said = page.run("document.querySelectorAll('#sessions thead th')[1].getAttribute('aria-sort')")
    page.press("Enter", 13)
    up = page.run(FIRST_CELLS)

    assert len(down) > 5
    assert down == sorted(down, key=int, reverse=True)
    assert said == "descending"
    assert up == sorted(up, key=int)


def test_a_mark_opens_its_compaction(page: Page) -> None:
    """A mark of the timeline tells turn, tier and tokens when it has the focus, and Enter opens its compaction."""
    page.run("document.querySelector('svg a.mark').focus()")
    shown = page.run("getComputedStyle(document.querySelector('svg a.mark .tip')).visibility")
    words = page.run("document.querySelector('svg a.mark').getAttribute('aria-label')")
    page.press("Enter", 13)
    page.run("new Promise(done => setTimeout(done, 50))")
    opened = page.run("document.querySelector(document.querySelector('svg a.mark').getAttribute('href')).open")

    assert shown == "visible"
    assert all(word in words for word in ("turn", "[", "tokens", "reduction"))
    assert opened is True


def test_anchors_open(page: Page) -> None:
    """A compaction opens to its anchors and its summary."""
    page.run("document.querySelectorAll('details').forEach(one => { one.open = false; })")
    page.run(
        "[...document.querySelectorAll('details')].find(d => d.querySelector('dl')).querySelector('summary').click()"
    )
    names = page.run("[...document.querySelectorAll('details[open] dt')].map(one => one.textContent)")

    assert names[:2] == ["user intent", "execution progress"]
    assert names[-1] == "summary"


CONTRAST = """(() => {
  const light = text => { const [r, g, b] = text.match(/[\\d.]+/g).map(Number).map(v => v / 255)
      .map(v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4); return .2126 * r + .7152 * g + .0722 * b; };
  const ratio = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + .05) / (y + .05); };
  const paper = getComputedStyle(document.body).backgroundColor, found = {};
  for (const one of document.querySelectorAll('h1, dt, caption, a, .quiet, p')) {
    found[one.tagName + '.' + one.className] = ratio(getComputedStyle(one).color, paper); }
  const labels = ['.warn', '.soft', '.full', '.emergency', '.axis'].map(name => 'svg text' + name).join(', ');
  for (const one of document.querySelectorAll(labels)) {
    found[one.className.baseVal] = ratio(getComputedStyle(one).fill, paper); }
  for (const one of document.querySelectorAll('.tier')) {
    const style = getComputedStyle(one); found[one.className] = ratio(style.color, style.backgroundColor); }
  return found; })()"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast(scheme: str, page: Page) -> None:
    """In both colour schemes every text stands out from what is behind it by 4.5 to 1 or more."""
    page.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    dark = page.run("getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)"
    ratios = page.run(CONTRAST)

    assert dark == (scheme == "dark")
    assert len(ratios) > 8
    assert {what: round(ratio, 1) for what, ratio in ratios.items() if ratio < 4.5} == {}


def test_structure(page: Page) -> None:
    """A screen reader finds a language, one heading of the first level, named sections and a name for every drawing."""
    assert page.run("document.documentElement.lang") == "en"
    assert page.run("document.querySelectorAll('h1').length") == 1
    for check in (
        "all('section').every(s => document.getElementById(s.getAttribute('aria-labelledby')))",
        "all('svg').every(s => s.getAttribute('aria-label') || s.getAttribute('aria-hidden'))",
        "new Set(all('[id]').map(e => e.id)).size === all('[id]').length",
        "all('a[href^=\"#\"]').every(a => document.getElementById(a.getAttribute('href').slice(1)))",
    ):
        assert page.run(f"(() => {{ const all = s => [...document.querySelectorAll(s)]; return {check}; }})()"), check


@pytest.mark.parametrize("width", [420, 800, 1000, 1300, 1400, 1650, 1900])
def test_the_table_of_sessions_fits_any_width(width: int, page: Page) -> None:
    """No column of the sessions hides behind a scrollbar, and no option of an advice ends its line in two parts."""
    page.send("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
    hidden = page.run("(s => s.scrollWidth - s.clientWidth)(document.querySelector('#sessions .scroll'))")
    broken = page.run("[...document.querySelectorAll('.flag')].filter(f => f.getClientRects().length > 1).length")
    flags = page.run("document.querySelectorAll('.flag').length")
    page.send("Emulation.clearDeviceMetricsOverride")

    assert (hidden, broken) == (0, 0)
    assert flags > 0


def test_nothing_was_said_in_the_end(page: Page) -> None:
    """After all of that the console is still empty."""
    assert page.complaints == []
