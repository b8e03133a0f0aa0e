"""Small files of which a test knows what their owner would say."""

from __future__ import annotations

from gpmcflow.data.suggestions import suggest


def seen(folder, target, /, **columns):
    """What is suggested for a file of these columns."""
    path = folder / "own.csv"
    names = [f'"{name}"' for name in columns]
    rows = [",".join(map(str, row)) for row in zip(*columns.values(), strict=True)]
    path.write_text("\n".join([",".join(names), *rows]) + "\n", encoding="utf-8")
    return suggest(path, target)
