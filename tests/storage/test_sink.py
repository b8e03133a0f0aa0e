from __future__ import annotations

import os

import numpy as np
import pytest

from gpmcflow.storage.writing import Sink


def read(sink: Sink, offset: int, size: int) -> bytes:
    buffer = bytearray(b"?" * size)
    sink.seek(offset)
    assert sink.readinto(buffer) == size
    return bytes(buffer)


@pytest.mark.parametrize("fails_after", [None, 0, 1, 2, 3])
def test_what_is_written_is_read_back_though_the_disk_is_full(tmp_path, monkeypatch, fails_after):
    real, calls = os.pwrite, []

    def pwrite(*arguments):
        calls.append(1)
        if fails_after is not None and len(calls) > fails_after:
            raise OSError(28, "No space left on device")
        return real(*arguments)

    monkeypatch.setattr(os, "pwrite", pwrite)
    sink = Sink(tmp_path / "a")
    for offset, data in ((0, b"abcdef"), (10, np.frombuffer(b"klmn", np.int16)), (4, b"EFGH")):
        sink.seek(offset)
        sink.write(data)
    sink.seek(2)
    sink.write(b"C")
    assert read(sink, 0, 16) == b"abCdEFGH\0\0klmn\0\0"
    assert read(sink, 3, 2) == b"dE"
    assert read(sink, 13, 4) == b"n\0\0\0"
    assert sink.seek(0, os.SEEK_END) == 14
    if fails_after is None:
        sink.finish()
        assert (tmp_path / "a").read_bytes() == b"abCdEFGH\0\0klmn"
    else:
        with pytest.raises(OSError, match="No space left"):
            sink.finish()
