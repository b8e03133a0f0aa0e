#!/usr/bin/env bash
# Snakemake runs this inside the new environment, in the folder it was started in.
set -euo pipefail
python -m pip install -c constraints.txt -e .
