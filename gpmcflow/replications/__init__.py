"""The methods of four papers, run as they were printed, and judged by their printed numbers."""
