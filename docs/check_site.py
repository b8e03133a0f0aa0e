"""Report links of the built site that lead nowhere, and pages that are wider than the screen of a browser.

    python docs/check_site.py docs/_build/html              # at 400 and 1200 pixels; needs Chromium
    python docs/check_site.py docs/_build/html --widths 360 --browser /usr/bin/chromium

Links to other sites are not tried. Wide tables, formulas and code have to scroll by themselves; a page that
scrolls sideways as a whole is a fault.
"""

from __future__ import annotations

import argparse
import functools
import json
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlparse

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
TIMEOUT = 600.0  # seconds for all pages
DRIVER = """<!doctype html><meta charset="utf-8">
<iframe id="page" style="border:0;height:900px"></iframe><script>
const pages = PAGES, widths = WIDTHS, frame = document.getElementById("page"), found = [];
const scrolls = e => ["auto", "scroll", "hidden"].includes(getComputedStyle(e).overflowX);
function widest(doc, limit) {
  let worst = null, right = limit + 1;
  for (const e of doc.body.querySelectorAll("*")) {
    const at = e.getBoundingClientRect().right;
    if (at <= right) continue;
    let up = e.parentElement;
    while (up && up !== doc.body && !scrolls(up)) up = up.parentElement;
    if (up === doc.body) { worst = e; right = at; }
  }
  if (!worst) return "";
  const name = worst.tagName.toLowerCase() + (worst.className ? "." + worst.className : "");
  return name + ": " + worst.textContent.trim().slice(0, 60);
}
const load = url => new Promise(done => { frame.onload = done; frame.src = url; });
(async () => {
  for (const page of pages) for (const width of widths) {
    frame.style.width = width + "px";
    await load("/" + page);
    const doc = frame.contentDocument, own = doc.scrollingElement.scrollWidth;
    found.push([page, width, own, own > width ? widest(doc, width) : ""]);
  }
  await fetch("/found", {method: "POST", body: JSON.stringify(found)});
})();
</script>"""


class Site(SimpleHTTPRequestHandler):
    """The built pages, the page that opens each of them, and what it has found."""

    def log_message(self, *_: object) -> None:
        """Say nothing of each request."""

    def do_GET(self) -> None:
        """Serve a file, or the driver."""
        if self.path != "/driver":
            return super().do_GET()
        self._answer(self.server.driver.encode())

    def do_POST(self) -> None:
        """Take what the driver has found."""
        length = int(self.headers["Content-Length"])
        self.server.found = json.loads(self.rfile.read(length))
        self._answer(b"")
        self.server.done.set()

    def _answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def measure(folder: Path, widths: list[int], browser: str) -> list[tuple[str, int, int, str]]:
    """Page, width of the screen, width of the page and its widest element, for each page and width."""
    pages = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.html"))
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Site, directory=str(folder)))
    server.driver = DRIVER.replace("PAGES", json.dumps(pages)).replace("WIDTHS", json.dumps(widths))
    server.found, server.done = [], threading.Event()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command = [
            browser,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--remote-debugging-port=0",
        ]
        command += [f"--user-data-dir={profile}", "--window-size=1400,1000", "--hide-scrollbars"]
        url = f"http://127.0.0.1:{server.server_port}/driver"
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        with subprocess.Popen([*command, url], **quiet) as process:
            ended = server.done.wait(TIMEOUT)
            process.terminate()
    server.shutdown()
    if not ended:
        raise SystemExit(f"{browser} has not opened all pages within {TIMEOUT:g} s")
    return [tuple(row) for row in server.found]


def broken_links(folder: Path) -> list[str]:
    """A line for each link within the site whose file, or place in it, is not there."""
    texts = {path: path.read_text(encoding="utf-8") for path in folder.rglob("*.html")}
    places = {path: set(re.findall(r'\bid="([^"]+)"', text)) for path, text in texts.items()}
    found = []
    for page, text in sorted(texts.items()):
        for link in sorted(set(re.findall(r'\b(?:href|src)="([^"]+)"', text))):
            url = urlparse(link)
            if url.scheme or url.netloc:
                continue
            target = (page.parent / unquote(url.path)).resolve() if url.path else page
            target = target / "index.html" if target.is_dir() else target
            place = unquote(url.fragment)
            if not target.exists() or (place and place not in places.get(target, {place})):
                found.append(f"{page.relative_to(folder)}: {link} leads nowhere")
    return found


def main(arguments: list[str] | None = None) -> int:
    """Print a line for each fault; 1 if there is one."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="with the built pages")
    parser.add_argument("--widths", type=int, nargs="+", default=[400, 1200])
    parser.add_argument("--browser", default=next(filter(shutil.which, BROWSERS), None))
    given = parser.parse_args(arguments)
    if given.browser is None:
        raise SystemExit(f"no browser found ({', '.join(BROWSERS)}); name one with --browser")
    folder = given.folder.resolve()
    nowhere = broken_links(folder)
    print(*nowhere, f"{len(nowhere)} links lead nowhere", sep="\n")
    rows = measure(folder, given.widths, given.browser)
    wide = [row for row in rows if row[2] > row[1]]
    for page, width, own, element in wide:
        print(f"{page}: {own} pixels on a screen of {width}: {element}")
    print(f"{len(rows) // len(given.widths)} pages at {given.widths} pixels, {len(wide)} too wide")
    return int(bool(wide or nowhere))


if __name__ == "__main__":
    sys.exit(main())
