"""Opens pages of the built site in Chromium: widths, errors, requests to other hosts, and the search.

    python docs/site/browser.py build/site [--shots FOLDER]

Needs `pip install playwright`, and a Chromium in PATH.
"""

from __future__ import annotations

import argparse
import functools
import shutil
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import product
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

PAGES = """index questions manual tutorials/train_and_compare tutorials/smaller_program how_to/ship explanation/credit
reference/environments/Inline-v0 reference/environments/arguments results/benchmark results/bundled_policies
repository/examples/inlining.ipynb"""
SIZES = {"desktop": (1280, 900), "phone": (390, 844)}
CUT_OFF = """() => [...document.querySelectorAll('.md-content *')].filter(node => {
    if (node.getBoundingClientRect().right <= innerWidth + 1) return false
    for (let box = node; box && box.matches('.md-content *'); box = box.parentElement)
        if (['auto', 'scroll'].includes(getComputedStyle(box).overflowX)) return false
    return getComputedStyle(node).display != 'none'
}).map(node => node.tagName + ' ' + node.textContent.slice(0, 40))"""
"""Finds parts that end right of the window, outside a box that scrolls."""
BROKEN = "() => [...document.images].filter(image => image.complete && !image.naturalWidth).map(image => image.src)"


class Quiet(SimpleHTTPRequestHandler):
    """A server of files that prints nothing."""

    def log_message(self, *_: object) -> None:
        """Print nothing."""


def problems(page: Page, address: str) -> list[str]:
    """Open a page and return its problems, one line each."""
    found: list[str] = []
    own = ("http://127.0.0.1:", "data:", "blob:")
    page.on("console", lambda message: found.append(f"console: {message.text}") if message.type == "error" else None)
    page.on("pageerror", lambda error: found.append(f"script: {error}"))
    page.on("request", lambda request: None if request.url.startswith(own) else found.append(f"host: {request.url}"))
    page.goto(address, wait_until="networkidle")
    width, window = page.evaluate("() => [document.documentElement.scrollWidth, innerWidth]")
    found += [f"page of {width} pixels in a window of {window}"] if width > window else []
    found += [f"cut off: {part!r}" for part in page.evaluate(CUT_OFF)]
    return found + [f"broken image: {source}" for source in page.evaluate(BROKEN)]


def main() -> None:
    """Print the problems of each page, and fail if there are any."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("site", type=Path)
    parser.add_argument("--shots", type=Path, help="folder for screenshots (default: none)")
    options = parser.parse_args()
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(options.site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    root, total = f"http://127.0.0.1:{server.server_port}", 0
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for (device, (width, height)), mode, name in product(SIZES.items(), ("light", "dark"), PAGES.split()):
            page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=mode)
            found = problems(page, f"{root}/{name}.html")
            total += len(found)
            print(*(f"{name} {device} {mode}: {problem}" for problem in found), sep="\n", end="\n" if found else "")
            if options.shots:
                page.screenshot(path=options.shots / f"{name.replace('/', '.')}-{device}-{mode}.png", full_page=True)
            page.close()
        page = browser.new_page()
        page.goto(f"{root}/index.html")
        page.fill(".md-search__input", "inline-oz")
        page.wait_for_selector(".md-search-result__item")
        print(page.locator(".md-search-result__item").count(), "results for 'inline-oz';", total, "problems")
    raise SystemExit(bool(total))


if __name__ == "__main__":
    main()
