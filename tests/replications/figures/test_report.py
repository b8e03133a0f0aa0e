from __future__ import annotations

import base64
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from gpmcflow.errors import InputError, StorageError
from gpmcflow.run_page.page import Answer, build_report
from gpmcflow.run_page.tables import summary
from gpmcflow.storage import write_csv, write_figure

VOID = {"meta", "img", "link", "br", "hr", "input"}
CONFIG = {
    "seed": 20181,
    "data_dir": "/home/someone/data",
    "memory_limit_gb": 3.5,
    "execution": {"workers": 7, "scheduler": "tcp://10.0.0.1:8786", "block_size": 256},
    "datasets": {"mine": {"csv": "/home/someone/results/table.csv", "target": "y"}},
}


class Page(HTMLParser):
    """Elements of a page; fails where a tag is not closed in its order."""

    def __init__(self, text):
        super().__init__()
        self.open, self.elements, self.text, self.rows = [], [], [], []
        self.elements_and_ends = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self.elements_and_ends.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag
        self.elements_and_ends.append((f"/{tag}", {}))

    def handle_data(self, data):
        self.text.append(data)
        if "td" in self.open or "th" in self.open:
            self.rows[-1][-1] += data

    def all(self, tag):
        return [attrs for name, attrs in self.elements if name == tag]

    def row(self, first):
        return next(row for row in self.rows if row[0] == first)


@pytest.fixture
def studies(tmp_path, evidence, approximations, verdict):
    folder = tmp_path / "results" / "rmhmc_ais"
    frames = {"evidence": evidence, "approximations": approximations, "verdict": verdict}
    for name, frame in frames.items():
        write_csv(frame, folder / f"{name}.csv")
    write_figure(Figure(figsize=(2, 1), dpi=100), folder / "figures" / "map.png")
    return {
        "rmhmc_ais": {
            "title": "Evidence of a <GP> classifier",
            "frames": {name: str(folder / f"{name}.csv") for name in frames},
            "figures": [(str(folder / "figures" / "map.png"), 'Map of "hardness" & evidence.')],
        }
    }


@pytest.fixture
def page(studies):
    return Page(build_report(studies, title="A report <b>", config=CONFIG))


def in_order(page, *parts):
    text = "".join(page.text)
    places = [text.index(part) for part in parts]
    assert places == sorted(places)


def test_it_opens_with_what_was_run_and_pictures_and_ends_with_verdicts_and_config(page):
    in_order(
        page, "A report <b>", "What was run", "digits-hard (digits-3v5, 365 cases, probit)",
        "Figure 1.", "Evidence: the best", "Approximations:",
        "1 agrees, 1 differs, 1 machine-dependent", "gpmcflow 0.", "seed 20181",
        "classifier: the printed numbers", "Config of the run", "block_size",
    )  # fmt: skip


def test_answers_of_analyses_come_first_with_a_link(studies):
    answers = [
        Answer("Who is readmitted & why?", "patients/report.html", "<p>In <b>part</b>.</p>"),
        Answer("Where?", "birds/report.html", "<p>North.</p>"),
    ]
    page = Page(build_report(studies, title="t", answers=answers))
    in_order(
        page,
        "Who is readmitted & why?",
        "part",
        "Where?",
        "North.",
        "Methods of papers",
        "Figure 1.",
    )
    assert [a["href"] for a in page.all("a")][:2] == ["patients/report.html", "birds/report.html"]
    alone = Page(build_report({}, title="t", answers=answers))
    assert len(alone.all("section")) == 3
    assert not alone.all("img")


def folded(page):
    """Tables inside of <details>, by position on the page."""
    depth, found = 0, []
    for tag, _ in page.elements_and_ends:
        depth += {"details": 1, "/details": -1}.get(tag, 0)
        if tag == "table":
            found.append(depth > 0)
    return found


def test_only_the_verdict_is_folded_and_nothing_is_red(studies, page):
    assert folded(page) == [False, False, True]
    style = build_report(studies, title="t").partition("</style>")[0]
    colours = {word.rstrip(";") for word in style.split() if word.startswith("#")}
    for colour in colours:
        digits = colour[1:] if len(colour) == 7 else "".join(2 * c for c in colour[1:])
        red, green, blue = (int(digits[k : k + 2], 16) for k in (0, 2, 4))
        assert red <= max(green, blue), colour


def test_a_verdict_without_rows_is_left_out(studies, tmp_path, verdict):
    path = tmp_path / "results" / "empty" / "verdict.csv"
    write_csv(verdict.iloc[:0], path)
    study = {"title": "Nothing to compare", "frames": {"verdict": str(path)}, "figures": []}
    page = Page(build_report({**studies, "empty": study}, title="t"))
    assert len(page.all("table")) == 3
    assert "Nothing to compare: the printed numbers beside ours" not in page.text
    alone = Page(build_report({"empty": study}, title="t"))
    assert "Printed numbers and claims" not in "".join(alone.text)


def test_figures_behind_the_open_ones_are_folded(studies):
    study = studies["rmhmc_ais"]
    path, caption = study["figures"][0]
    study |= {"figures": [(path, f"{caption} {k}") for k in range(3)], "n_open": 1}
    page = Page(build_report(studies, title="t"))
    assert [image["alt"][:9] for image in page.all("img")] == [
        "Figure 1.",
        "Figure 2.",
        "Figure 3.",
    ]
    tags = [tag for tag, _ in page.elements_and_ends if tag in ("img", "details")]
    assert tags[:3] == ["img", "details", "img"]
    assert "More figures (2)" in page.text


def test_every_table_and_image_is_there(studies, page):
    assert len(page.all("table")) == 3
    (image,) = page.all("img")
    path = studies["rmhmc_ais"]["figures"][0][0]
    with open(path, "rb") as stream:
        assert base64.b64decode(image["src"].split("base64,")[1]) == stream.read()
    assert image["alt"] == 'Figure 1. Map of "hardness" & evidence.'
    assert (image["width"], image["height"]) == ("200", "100")


def test_nothing_is_loaded_from_elsewhere_and_nothing_runs(studies, page):
    text = build_report(studies, title="t", config=CONFIG)
    assert "http:" not in text
    assert "https:" not in text
    assert "url(" not in text
    assert "@import" not in text
    assert not page.all("script")
    assert not page.all("link")
    for _, attrs in page.elements:
        assert attrs.get("src", "data:").startswith("data:")
        assert attrs.get("href", "#").startswith("#")


def test_text_is_escaped(page, studies):
    text = build_report(studies, title="A report <b>", config=CONFIG)
    assert "<b>" not in text
    assert "log Z &lt;AIS&gt;" in text
    assert "Evidence of a <GP> classifier" in page.text
    assert page.row("B")[-1] == "prints 4 digits & rounds"


def test_same_files_same_text_without_paths_or_machine(studies, tmp_path):
    text = build_report(studies, title="t", config=CONFIG)
    assert text == build_report(studies, title="t", config=CONFIG)
    shown = "".join(Page(text).text)
    for hidden in (str(tmp_path), "/home/someone", "tcp:", "memory_limit_gb", "workers"):
        assert hidden not in shown
    assert "results/table.csv" in shown
    assert "block_size" in shown


def test_the_best_row_of_each_method_with_its_error(page):
    rows = [row for row in page.rows if row[0] == "split_hmc_ep"]
    assert len(rows) == 2  # one a problem
    value, error = rows[0][1].split(" ± ")
    assert len(error.split(".")[1]) == len(value.split(".")[1]) == 4
    assert float(value) == pytest.approx(-105.8385, abs=0.05)
    assert rows[0][2] == "none"
    assert rows[0][5:7] == ["100", "3 × 128"]


def test_alarms_are_words_and_not_only_a_colour(page):
    row = page.row("hmc_prior")
    assert row[1].startswith("ALARM")
    assert row[2] == "effective size 1.7 < 10; largest weight 0.81 > 0.5 (in 3 of 3 replicates)"
    assert "estimates with an alarm" in page.text
    assert page.text[page.text.index("estimates with an alarm") + 1] == "18"


def test_numbers_of_the_verdict_have_the_digits_of_their_error(page):
    assert page.row("A")[2:7] == ["agrees ", "-106.0892", "-106.0892", "0", "0.0002"]
    assert page.row("B")[4:6] == ["-149.37210", "0.0009"]
    assert page.row("H2")[3:6] == ["90", "31.42", "0.3"]


def test_quantities_without_values_are_left_out(page):
    assert page.row("EP (nats)") == ["EP (nats)", "-106.0892", "-60.2100"]
    assert not [row for row in page.rows if row[0] == "test error, posterior"]


def test_tables_can_be_read_aloud_and_scrolled(page):
    assert all(attrs.get("scope") in ("col", "row", "rowgroup") for attrs in page.all("th"))
    regions = [attrs for attrs in page.all("div") if attrs.get("role") == "region"]
    ids = {attrs["id"] for _, attrs in page.elements if "id" in attrs}
    assert len(regions) == 3
    assert all(attrs["tabindex"] == "0" and attrs["aria-labelledby"] in ids for attrs in regions)
    assert page.all("html") == [{"lang": "en"}]


def test_studies_may_lack_tables_and_config(studies):
    studies["own"] = {
        "title": "Own data",
        "frames": {},
        "figures": [],
        "files": ["results/own/a.nc"],
    }
    page = Page(build_report(studies, title="t"))
    assert "results/own/a.nc" in page.text
    assert len(page.all("section")) == 4
    assert "Config of the run" not in page.text
    assert [attrs["href"] for attrs in page.all("a")] == ["#study-1", "#study-2"]


def test_verdicts_of_all_studies_come_behind_the_other_tables(studies, tmp_path, verdict):
    runs = pd.DataFrame(
        {
            "problem": ["a", "a", "b"],
            "method": ["hmc", "split", "hmc"],
            "tau_ll": [4.6123, 3.2, 5.0],
            "tau_ll_mcse": [0.123, np.nan, 0.5],
            "n_gradient": [20.0, 10.0, 20.0],
            "printed_ap": [np.nan] * 3,
        }
    )
    folder = tmp_path / "results" / "preconditioned_split_hmc"
    for name, frame in {"verdict": verdict, "runs": runs}.items():
        write_csv(frame, folder / f"{name}.csv")
    frames = {name: str(folder / f"{name}.csv") for name in ("verdict", "runs")}
    studies["preconditioned_split_hmc"] = {"title": "Split HMC", "frames": frames, "figures": []}
    page = Page(build_report(studies, title="t"))
    text = "".join(page.text)
    order = ["Evidence: the best", "Runs", "classifier: the printed", "Split HMC: the printed"]
    places = [text.index(part) for part in order]
    assert places == sorted(places)
    assert ["method", "tau ll ± mcse", "n gradient"] in page.rows
    found = [row for row in page.rows if row[0] in ("hmc", "split")]
    assert found == [
        ["hmc", "4.61 ± 0.12", "20"],
        ["split", "3.2", "10"],
        ["hmc", "5.00 ± 0.50", "20"],
    ]
    assert [row for row in page.rows if row in (["a"], ["b"])] == [["a"], ["b"]]
    assert "a, b" in page.text
    assert "hmc, split" in page.text


def test_what_is_wrong_with_a_file_is_said_in_one_line(studies, tmp_path, evidence):
    study = studies["rmhmc_ais"]
    bad = tmp_path / "bad.png"
    bad.write_bytes(b"no image")
    cases = [
        ({"figures": [(bad, "c")]}, StorageError, "bad.png: not a PNG image"),
        ({"figures": [(tmp_path / "gone.png", "c")]}, StorageError, "gone.png: No such file"),
        ({"frames": {"evidence": tmp_path / "gone.csv"}}, StorageError, "gone.csv: no such file"),
        ({"frames": {"verdict": study["frames"]["evidence"]}}, InputError, "no column"),
    ]
    bad.with_suffix(".csv").write_bytes(b"")
    cases.append(
        ({"frames": {"evidence": tmp_path / "bad.csv"}}, StorageError, "bad.csv: cannot be read")
    )
    for change, kind, message in cases:
        with pytest.raises(kind, match=message) as caught:
            build_report({"rmhmc_ais": study | change}, title="t")
        assert "\n" not in str(caught.value)


def test_two_tables_of_the_same_problems_and_methods_say_so_once():
    frame = pd.DataFrame({"problem": ["a", "b"], "method": ["x", "y"]})
    assert summary({"efficiency": frame, "posterior": frame}) == [
        ("problems", "a, b"),
        ("methods", "x, y"),
    ]


def test_which_sampler_says_what_its_seconds_are():
    from gpmcflow.run_page.tables import summary, which_sampler_table

    frame = pd.DataFrame(
        {"problem": ["p", "p"], "method": ["a", "b"], "rank": [1, 2], "advice": ["use", "do not use: x"],
         "seconds_to_100": [1.5, np.nan], "T_per_second": [20.0, 0.1], "T_per_second_mcse": [1.0, np.nan]}
    )  # fmt: skip
    table = which_sampler_table(frame, "results/s/which_sampler.csv")
    assert table["caption"] == "Which sampler to use"
    assert "CPU seconds of one core to 100 effective samples" in table["note"]
    (first, second) = table["groups"][0][1]
    assert [cell["text"] for cell in first["cells"]] == ["a", "1", "use", "1.5", "20.0 ± 1.0"]
    assert second["cells"][3]["text"] == ""
    assert summary({"which_sampler": frame}) == []  # the other tables have all problems and methods


def test_which_method_has_a_block_per_problem_and_no_time_for_a_collapse():
    from gpmcflow.run_page.tables import which_method_table

    row = {
        "problem": "p", "method": "a", "advice": "first choice", "log_evidence": -10.01234,
        "log_evidence_mcse": 0.02, "seconds_to_0.05": 1.5, "times_the_best": 1.0,
        "gigaflops_to_0.05": 20.0, "time_times_variance": 1e-3, "n_temperatures": 30,
        "effective_size": 88.0,
    }  # fmt: skip
    lost = {"method": "b", "advice": "not estimable: x", "seconds_to_0.05": np.nan}
    table = which_method_table(pd.DataFrame([row, row | lost, row | {"problem": "q"}]), "w.csv")
    assert [name for name, _ in table["groups"]] == ["p", "q"]
    first, second = table["groups"][0][1]
    texts = [cell["text"] for cell in first["cells"]]
    assert texts[:3] == ["a", "first choice", "1.5"]
    assert texts[-1] == "-10.012 ± 0.020"
    assert not first["useless"]
    assert second["useless"]
    assert second["cells"][2]["text"] == ""
    assert len(table["columns"]) == len(texts)
