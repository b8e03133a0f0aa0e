"""Command line: `gpmcflow new`, `check`, `run`, `predict` for own data; `status`, `forecast` and others."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence

from gpmcflow.cli import commands
from gpmcflow.cli.parser import at_work, parser_of_commands
from gpmcflow.cli.streams import told_to_be_at_work, visible_streams
from gpmcflow.errors import GpmcflowError, InputError, StorageError
from gpmcflow.storage.machine import machine_error


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return 0, or 1 after errors of the user's, a line each on stderr.

    Ctrl-C gives 130; `gpmcflow run` returns Snakemake's exit code; what follows `--` goes to Snakemake.
    """
    try:
        with visible_streams():
            return _main(argv)
    except StorageError as error:
        print(f"gpmcflow: {error}", file=sys.stderr)
        return 1


def _main(argv: Sequence[str] | None) -> int:
    words = list(sys.argv[1:] if argv is None else argv)
    split = words.index("--") if "--" in words else len(words)
    options = parser_of_commands().parse_args(words[:split])
    options.snakemake = words[split + 1 :]
    try:
        if options.snakemake and options.command is not commands.run:
            raise InputError("options after -- found; allowed: with gpmcflow run; leave them out")
        what = at_work(options)
        with told_to_be_at_work(f"gpmcflow {what}") if what else contextlib.nullcontext():
            code = options.command(options) or 0
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        print("gpmcflow: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # what read the output has gone, such as head
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except GpmcflowError as error:
        lines = getattr(error, "problems", ())
        if len(lines) > 1:
            where = f"{error.where}: " if error.where else ""
            print(f"gpmcflow: {where}{len(lines)} problems", file=sys.stderr)
            print(*(f"  {line}" for line in lines), sep="\n", file=sys.stderr)
        else:
            print(f"gpmcflow: {' '.join(str(error).split())}", file=sys.stderr)
        return 1
    except (MemoryError, ImportError, OSError, RuntimeError) as error:
        if (short := machine_error(error)) is None:
            raise
        print(f"gpmcflow: {short}", file=sys.stderr)
        return 1
