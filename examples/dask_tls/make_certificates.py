"""Make a certificate and the settings by which a Dask cluster lets nobody else in.

    python make_certificates.py FOLDER       # such as ~/.dask-tls; needs the command openssl
    export DASK_CONFIG=FOLDER/dask.yaml

Scheduler, workers and gpmcflow that have this variable talk to each other at tls:// addresses, and to
nobody without the key. Whoever can read FOLDER/key.pem can run code on the cluster: the folder is made for
its owner alone.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

DAYS = 365


def make(folder: Path) -> Path:
    """Write key.pem, certificate.pem and dask.yaml into a new folder; return the path of the last."""
    folder = folder.expanduser().resolve()
    folder.mkdir(mode=0o700, parents=True)
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:3072", "-nodes", "-days", str(DAYS)),
            *("-subj", "/CN=dask", "-keyout", str(key), "-out", str(certificate)),
        ],
        check=True,
        capture_output=True,
    )
    os.chmod(key, 0o600)
    pair = {"key": str(key), "cert": str(certificate)}
    tls = {"ca-file": str(certificate), "scheduler": pair, "worker": pair, "client": pair}
    comm = {"default-scheme": "tls", "require-encryption": True, "tls": tls}
    settings = folder / "dask.yaml"
    settings.write_text(json.dumps({"distributed": {"comm": comm}}, indent=2) + "\n")
    return settings


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    print(f"export DASK_CONFIG={make(Path(sys.argv[1]))}")
