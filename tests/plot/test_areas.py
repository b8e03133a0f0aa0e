"""The map of areas as it is drawn."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from gpmcflow.plot.maps import area_frame, draw_areas, paths_of
from gpmcflow.plot.style import SETTINGS, WIDTH, new_axes


def square(area, x, y):
    corners = [(x, y), (x + 1, y), (x + 1, y + 1), (x, y + 1), (x, y)]
    return pd.DataFrame(corners, columns=["x", "y"]).assign(area=area, ring=0)


@pytest.mark.parametrize("across", [1, 4])
def test_the_colour_bar_stands_close_below_the_map_and_its_labels_within_the_picture(across):
    outlines = pd.concat([square(f"a{k}", k, 0) for k in range(across)])
    paths = paths_of(outlines)
    shown = pd.Series(np.linspace(0.05, 0.95, across), paths)
    frame, levels = area_frame(paths), np.array([0.0, 0.2, 0.8, 1.0])
    with mpl.rc_context(SETTINGS):
        figure = Figure(figsize=(WIDTH / 72, frame.height / 72), dpi=72)
        axes = new_axes(figure, frame)
        draw_areas(axes, paths, shown, levels, shown < 0.0, title="P", share=True)
        renderer = FigureCanvasAgg(figure).get_renderer()
        figure.draw(renderer)
        (bar,) = axes.child_axes
        gap = axes.get_window_extent().y0 - bar.get_window_extent().y1
        texts = [text.get_window_extent(renderer) for text in bar.get_xticklabels()]
    assert 4.0 < gap < 16.0
    assert all(text.y0 >= 0.0 and text.y1 <= bar.get_window_extent().y0 for text in texts)
