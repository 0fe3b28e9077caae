"""A real browser for tests: headless Chromium, controlled by its own protocol over a pipe.

No package is needed beside Chromium itself (Debian: ``apt install chromium``). The pipe ends with the test,
and the browser with the pipe: nothing is left running and no port is opened.
"""

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu-sandbox",
    "--use-gl=angle",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--disable-gpu-compositing",
    "--disable-quic",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--force-device-scale-factor=1",
    "--remote-debugging-pipe",
)
# WebGL in software says how fast it is, which is no fault of the page
SLOW_DRIVER = "GL Driver Message (OpenGL, Performance"
# Chromium reads descriptor 3 and writes descriptor 4; either may be taken by the other end at first
LAUNCHER = """
import os, sys
reading, writing = (os.dup2(int(end), 100 + k) for k, end in enumerate(sys.argv[1:3]))
os.dup2(reading, 3)
os.dup2(writing, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
# A promise that is kept when the script of the page says that it is done
READY = """new Promise(done => {
  const page = document.documentElement;
  const look = () => page.dataset.ready === "true" && done(true);
  new MutationObserver(look).observe(page, {attributeFilter: ["data-ready"]});
  look();
})"""
KEYS = {"ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "Home": 36, "End": 35, "Tab": 9}


def find_chromium():
    """The path of a Chromium, None if there is none."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def install():
    """Install Chromium if one command does it; otherwise say in one line what is missing."""
    if find_chromium() is not None:
        return
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        print("No Chromium: the tests of reports in a browser will be skipped (it takes apt-get and root).")
        return
    print("Installing Chromium for the tests of reports in a browser ...")
    for command in ("update", "install -y --no-install-recommends chromium"):
        done = subprocess.run(
            ["apt-get", "-qq", *command.split()], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            print(f"apt-get {command} failed; these tests will be skipped. {done.stderr.strip()[-300:]}")
            return


class Browser:
    """One Chromium with one page."""

    def __init__(self, executable, folder, timeout=300.0):
        self.timeout = timeout
        self.events = []
        self._number = 0
        self._rest = b""
        read_there, self._write = os.pipe()
        self._read, write_there = os.pipe()
        ends = [str(read_there), str(write_there)]
        arguments = [executable, *FLAGS, f"--user-data-dir={folder}", "about:blank"]
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", LAUNCHER, *ends, *arguments],
            pass_fds=(read_there, write_there),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(read_there)
        os.close(write_there)
        self._session = None
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def close(self):
        os.close(self._write)
        os.close(self._read)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def send(self, method, **parameters):
        """Call a method of the protocol and return its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + self.timeout
        while True:
            answer = self._next(deadline)
            if answer is None:
                raise TimeoutError(f"Chromium did not answer {method}")
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]

    def _next(self, deadline):
        """The next message; events are kept, too. None at the deadline."""
        while b"\0" not in self._rest:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._read], [], [], left)[0]:
                return None
            chunk = os.read(self._read, 1 << 20)
            if not chunk:
                raise RuntimeError("Chromium has ended")
            self._rest += chunk
        line, _, self._rest = self._rest.partition(b"\0")
        message = json.loads(line)
        if "method" in message:
            self.events.append(message)
        return message

    def open(self, file, width=1200, height=900, fragment=""):
        """Open a file in a window of a given size, and wait until its script is done."""
        self.resize(width, height)
        if fragment:
            self._load("about:blank")  # an address that differs in its fragment only loads nothing
        self._load(Path(file).resolve().as_uri() + fragment)
        try:
            self.evaluate(READY)
        except TimeoutError:
            raise TimeoutError(f"{file} is not ready; the page complained: {self.complaints()}") from None

    def _load(self, url):
        self.events.clear()
        self.send("Page.navigate", url=url)
        deadline = time.monotonic() + self.timeout
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            if self._next(deadline) is None:
                raise TimeoutError(f"{url} was not loaded")

    def resize(self, width, height=900):
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    @contextmanager
    def scheme(self, name):
        """Prefer a colour scheme, "light" or "dark", for a while."""
        features = [{"name": "prefers-color-scheme", "value": name}]
        self.send("Emulation.setEmulatedMedia", features=features)
        yield
        self.send("Emulation.setEmulatedMedia", features=[])

    def evaluate(self, expression):
        """The value of an expression of JavaScript; promises are waited for."""
        result = self.send("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            raise RuntimeError(str(result["exceptionDetails"].get("exception", result["exceptionDetails"])))
        return result["result"].get("value")

    def complaints(self):
        """Errors and warnings that the page has caused."""
        found = []
        for event in self.events:
            content = event["params"]
            if event["method"] == "Runtime.exceptionThrown":
                found.append(str(content["exceptionDetails"].get("exception", {}).get("description")))
            elif event["method"] == "Runtime.consoleAPICalled" and content["type"] in ("error", "warning"):
                found.append(str([argument.get("value") for argument in content["args"]]))
            elif event["method"] == "Log.entryAdded" and content["entry"]["level"] in ("error", "warning"):
                found.append(content["entry"]["text"])
        return [text for text in found if SLOW_DRIVER not in text]

    def requests(self):
        """Addresses that the page has requested; pictures inside the page do not count."""
        asked = [
            event["params"]["request"]["url"]
            for event in self.events
            if event["method"] == "Network.requestWillBeSent"
        ]
        return [url for url in asked if not url.startswith(("data:", "blob:"))]

    def press(self, key):
        for kind in ("rawKeyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=KEYS[key])

    def box(self, selector):
        """Position of an element after scrolling to it: left, top, width, height."""
        return self.evaluate(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)}); "
            "e.scrollIntoView({block: 'center'}); const b = e.getBoundingClientRect(); "
            "return [b.left, b.top, b.width, b.height]; })()"
        )

    def _mouse(self, kind, x, y, **more):
        self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def move(self, selector, across=0.5, down=0.5):
        """Point at an element, at a share of its width and height."""
        left, top, width, height = self.box(selector)
        self._mouse("mouseMoved", left + across * width, top + down * height)

    def click(self, selector, across=0.5, down=0.5):
        left, top, width, height = self.box(selector)
        x, y = left + across * width, top + down * height
        for kind in ("mousePressed", "mouseReleased"):
            self._mouse(kind, x, y, button="left", buttons=1, clickCount=1)

    def drag(self, selector, dx, dy):
        left, top, width, height = self.box(selector)
        x, y = left + width / 2, top + height / 2
        self._mouse("mousePressed", x, y, button="left", buttons=1, clickCount=1)
        for step in range(1, 6):
            self._mouse("mouseMoved", x + dx * step / 5, y + dy * step / 5, button="left", buttons=1)
        self._mouse("mouseReleased", x + dx, y + dy, button="left", buttons=0, clickCount=1)

    def picture_of(self, selector):
        """The pixels of a canvas as a data URI, which is equal only for equal pictures."""
        return self.evaluate(f"document.querySelector({json.dumps(selector)}).toDataURL()")

    def text(self, selector):
        return self.evaluate(f"document.querySelector({json.dumps(selector)}).textContent")

    def screenshot(self, file):
        """The whole page as a PNG file."""
        height = self.evaluate("document.documentElement.scrollHeight")
        width = self.evaluate("window.innerWidth")
        answer = self.send(
            "Page.captureScreenshot",
            captureBeyondViewport=True,
            clip={"x": 0, "y": 0, "width": width, "height": min(height, 8000), "scale": 1},
        )
        Path(file).write_bytes(base64.b64decode(answer["data"]))

    def print_to(self, file):
        """The page as it would be printed, as a PDF file."""
        answer = self.send("Page.printToPDF", printBackground=True, paperWidth=8.27, paperHeight=11.69)
        Path(file).write_bytes(base64.b64decode(answer["data"]))


if __name__ == "__main__":
    install()
