"""A headless Chromium that tests drive through its DevTools protocol, over a pair of pipes.

Nothing beside Chromium itself is needed. Found as chromium, chromium-browser or google-chrome on
the PATH, or named by the environment variable CHROMIUM.
"""

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import time

NAMES = ("chromium", "chromium-browser", "google-chrome")
# Chromium reads commands from file descriptor 3 and answers on 4.
_START = (
    "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4); "
    "os.execv(sys.argv[3], sys.argv[3:])"
)
# The last ones keep it from looking for a network.
_FLAGS = (
    "--headless",
    "--remote-debugging-pipe",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def find():
    """The path of Chromium, or None."""
    named = os.environ.get("CHROMIUM")
    return shutil.which(named) if named else next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One page in a Chromium of its own; a context manager."""

    def __init__(self, profile, timeout=180):
        self._timeout, self._sent, self._buffer, self.events = timeout, 0, b"", []
        reads, self._write = os.pipe()
        self._read, writes = os.pipe()
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (reads, writes)]
        command = [sys.executable, "-c", _START, *map(str, ends), find(), *_FLAGS]
        self._process = subprocess.Popen(
            [*command, f"--user-data-dir={profile}", "about:blank"],
            pass_fds=ends,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for end in (reads, writes, *ends):
            os.close(end)
        self._session = None

    def __enter__(self):
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(target["targetId"] for target in targets if target["type"] == "page")
        attached = self.call("Target.attachToTarget", targetId=page, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        return self

    def __exit__(self, *unused):
        self._session = None
        try:
            # It ends its own processes, which would otherwise write to the profile for a while.
            self.call("Browser.close")
            self._process.wait(timeout=20)
        except (AssertionError, OSError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        os.close(self._write)
        os.close(self._read)

    def call(self, method, **params):
        """Sends a command and returns its result; events that arrive meanwhile are kept."""
        self._sent += 1
        message = {"id": self._sent, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._sent:
                assert "error" not in answer, answer
                return answer["result"]
            self.events.append(answer)

    def _receive(self):
        deadline = time.monotonic() + self._timeout
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], deadline - time.monotonic())
            assert ready, "Chromium does not answer"
            received = os.read(self._read, 1 << 16)
            assert received, "Chromium has ended"
            self._buffer += received
        line, self._buffer = self._buffer.split(b"\0", 1)
        return json.loads(line)

    def open(self, path, width, height, touch=False, dark=False):
        """Shows a file on a screen of this size, and waits until it is there."""
        self._set_screen(width, height, touch)
        self.call("Emulation.setTouchEmulationEnabled", enabled=touch)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.events.clear()
        self.call("Page.navigate", url=path.absolute().as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._receive())

    def resize(self, width, height, touch=False):
        """Gives the screen another size, and the page a moment to follow."""
        self._set_screen(width, height, touch)
        self.run("new Promise((f) => requestAnimationFrame(() => requestAnimationFrame(f)))")

    def _set_screen(self, width, height, touch):
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=2 if touch else 1,
            mobile=touch,
        )

    def run(self, expression):
        """The value of a JavaScript expression, that of a promise once it is kept."""
        found = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def see(self, selector):
        """Scrolls to a figure and waits until it is drawn."""
        self.run(
            f"new Promise((done) => {{ const e = document.querySelector({json.dumps(selector)});"
            " e.scrollIntoView({block: 'center'}); const look = () => e.querySelector('canvas')"
            " ? done() : requestAnimationFrame(look); look(); })"
        )

    def place(self, selector):
        """The middle of the first element that a selector finds, scrolled into view."""
        return self.run(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            " e.scrollIntoView({block: 'center'}); const b = e.getBoundingClientRect();"
            " return [b.left + b.width / 2, b.top + b.height / 2]; })()"
        )

    def click(self, selector):
        """A real click with the mouse."""
        x, y = self.place(selector)
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def hover(self, selector):
        x, y = self.place(selector)
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def tap(self, selector):
        """A touch with a finger."""
        x, y = self.place(selector)
        self.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x, "y": y}])
        self.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])

    def press(self, key):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key)

    def screenshot(self, path, whole=False):
        found = self.call("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(found["data"]))

    def problems(self):
        """Exceptions, errors on the console, and requests for anything but the page itself."""
        self.run("1")
        found = []
        for event in self.events:
            method, params = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown":
                found.append(params["exceptionDetails"])
            elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
                found.append(params["entry"])
            elif method == "Runtime.consoleAPICalled" and params["type"] == "error":
                found.append(params["args"])
            elif method == "Network.requestWillBeSent" and not params["request"]["url"].startswith(
                "file:"
            ):
                found.append(params["request"]["url"])
        return found
