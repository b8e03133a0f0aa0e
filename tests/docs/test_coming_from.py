"""The page that sets formulas of other packages beside ours: each of its lines is made into a model there."""

import re
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs" / "coming_from.md").read_text()


def column(heading: str) -> list[str]:
    """Second cells of the rows of a table, without code marks."""
    table = PAGE.partition(f"## {heading}")[2].partition("\n## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ") and "`" in line]
    return [re.split(r"(?<!\\)\|", row)[2].strip().replace("`", "") for row in rows]


def test_every_term_of_the_table_is_made_into_a_model():
    made = re.search(r'terms = """(.*?)"""', PAGE, re.S)[1].splitlines()
    assert sorted(column("Terms")) == sorted(made)
    assert len(made) > 12


def test_every_likelihood_of_the_table_is_made_into_a_model():
    made = re.findall(r'"(\w+)": ', PAGE.partition("outcomes = {")[2].partition("\n}")[0])
    assert sorted(", ".join(column("Outcomes")).split(", ")) == sorted(made)
