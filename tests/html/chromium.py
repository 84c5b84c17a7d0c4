"""Headless Chromium over its debugging pipe, with nothing but the standard library."""
from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time


def find() -> str | None:
    """The browser's path, or None where none is installed (Debian's package: chromium)."""
    return os.environ.get("ASSAY_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")


class Chromium:
    """One page of one browser. Events are kept in `events` as they come."""

    def __init__(self, path: str):
        self.profile = tempfile.TemporaryDirectory(prefix="assay-chromium-")
        to_read, self.to = os.pipe()
        self.back, to_write = os.pipe()

        def wire():  # the browser reads descriptor 3 and writes 4
            os.dup2(to_read, 100)
            os.dup2(to_write, 101)
            os.dup2(100, 3)
            os.dup2(101, 4)

        self.process = subprocess.Popen(
            [path, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-pipe",
             "--no-first-run", "--disable-extensions", "--disable-background-networking", "--hide-scrollbars",
             "--force-device-scale-factor=1", f"--user-data-dir={self.profile.name}", "about:blank"],
            preexec_fn=wire, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(to_write)
        self.buffer, self.events, self.number, self.session = b"", [], 0, None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "DOM"):
            self.call(domain + ".enable")

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.to)
        os.close(self.back)
        for _ in range(20):
            try:
                self.profile.cleanup()
                return
            except OSError:  # a helper process of the browser still writes
                time.sleep(0.1)

    def _message(self, seconds: float) -> dict:
        end = time.monotonic() + seconds
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.back], [], [], max(0, end - time.monotonic()))
            if not ready:
                raise TimeoutError("the browser did not answer")
            part = os.read(self.back, 1 << 20)
            if not part:
                raise EOFError("the browser ended")
            self.buffer += part
        text, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(text)

    def call(self, method: str, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.to, data):]
        while True:
            answer = self._message(180)
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def run(self, expression: str):
        """The value of a JavaScript expression."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression[:200]}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def open(self, path: str) -> None:
        self.events.clear()
        self.call("Page.navigate", url="file://" + os.path.abspath(path))
        while not any(e.get("method") == "Page.loadEventFired" for e in self.events):
            self.events.append(self._message(180))
        self.settle()

    def settle(self) -> None:
        """Waits until two frames were drawn."""
        self.run("new Promise(r => requestAnimationFrame(() => requestAnimationFrame(() => r(1))))")

    def size(self, width: int, height: int, mobile: bool = False) -> None:
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)
        self.settle()

    def scheme(self, name: str) -> None:
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])
        self.settle()

    def key(self, key: str) -> None:
        text = key if len(key) == 1 else ""
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, text=text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def hover(self, x: float, y: float) -> None:
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def screenshot(self, path: str, clip: dict | None = None) -> None:
        params = {"format": "png", "captureBeyondViewport": clip is not None}
        if clip:
            params["clip"] = {**clip, "scale": 1}
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("Page.captureScreenshot", **params)["data"]))

    def complaints(self) -> list[str]:
        """Everything that the console, the log or a script complained about since the page was opened."""
        out = []
        for event in self.events:
            method, p = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown":
                out.append(str(p["exceptionDetails"].get("exception", p["exceptionDetails"]).get("description", "exception")))
            elif method == "Log.entryAdded" and p["entry"]["level"] in ("error", "warning"):
                out.append(p["entry"]["text"])
            elif method == "Runtime.consoleAPICalled":
                out.append("console: " + str([a.get("value") for a in p["args"]]))
        return out

    def requests(self) -> list[str]:
        return [e["params"]["request"]["url"] for e in self.events if e.get("method") == "Network.requestWillBeSent"]
