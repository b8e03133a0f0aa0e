"""Files: the NetCDF schema, atomic and deterministic writes, checked reads.

Names are imported on first use, so that workers can write a segment without loading xarray.
"""

from __future__ import annotations

from gpmcflow.lazy_names import lazy_names

_HOME = {
    "atomic_path": "atomic",
    "canonical_json": "files",
    "csv_text": "files",
    "load_results": "reading",
    "open_results": "reading",
    "origin": "files",
    "read_csv": "files",
    "read_sidecar": "files",
    "remove": "checksums",
    "require_unchanged": "checksums",
    "standard_attributes": "schema",
    "with_attributes": "schema",
    "write_csv": "files",
    "write_figure": "files",
    "write_result_text": "files",
    "write_results": "writing",
    "write_sidecar": "files",
    "write_text": "files",
}

__all__ = sorted(_HOME)
__getattr__ = lazy_names(__name__, _HOME)
