"""Where caches go: the user's folder, or a private temporary one."""

import os
import tempfile

from gpmcflow.storage.cache_folder import user_caches


def test_caches_go_to_the_user_or_to_a_private_temporary_folder(tmp_path, monkeypatch):
    blocked = tmp_path / "file"
    blocked.touch()  # nothing can be made below a file, by root either
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    private = tmp_path / f"gpmcflow-{os.getuid()}"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "stated"))
    assert user_caches() == tmp_path / "stated"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert user_caches() == tmp_path / "home" / ".cache"
    monkeypatch.setenv("HOME", str(blocked))
    assert user_caches() == private
    assert private.stat().st_mode & 0o777 == 0o700
    private.chmod(0o777)  # somebody else may have put code into it
    assert user_caches() is None
    private.rmdir()
    private.symlink_to(tmp_path)
    assert user_caches() is None
