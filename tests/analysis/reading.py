"""Words of a page, and changes to the files it is made of."""

from __future__ import annotations

import re
from html import unescape

import pandas as pd


def text_of(page: str) -> str:
    """Words of the page, without style, pictures and tags."""
    page = re.sub(r"<style>.*?</style>|<svg.*?</svg>", " ", page, flags=re.S)
    page = re.sub(r"</t[dh]>", " | ", page)
    return " ".join(unescape(re.sub(r"<[^>]+>", "", page)).split())


def edit(folder, table, change):
    frame = pd.read_csv(folder / f"{table}.csv")
    changed = change(frame)
    (frame if changed is None else changed).to_csv(folder / f"{table}.csv", index=False)


def section_of(page: str, key: str) -> str:
    return text_of(re.search(rf'<section id="{key}">.*?</section>', page, re.S)[0])
