"""The report page of an analysis of own data: words, pictures, page."""

from __future__ import annotations

from gpmcflow.analysis.page.page import answer_of, answers, build_page, page_style

__all__ = ["answer_of", "answers", "build_page", "page_style"]
