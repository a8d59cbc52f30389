"""The printed view: a page on paper holds answers and charts, not what works them."""

from __future__ import annotations

import streamlit as st

PRINT_CSS = """
@page { size: A4 landscape; margin: 12mm; }
@media print {
  [data-testid="stSidebar"], [data-testid="stSidebarCollapsedControl"],
  [data-testid="stExpandSidebarButton"], [data-testid="stHeader"], [data-testid="stToolbar"],
  [data-testid="stStatusWidget"], [data-testid="stButton"], [data-testid="stDownloadButton"],
  [data-testid="stFileUploader"], [data-testid="stTooltipIcon"],
  [data-testid="stElementToolbar"], .st-key-next_questions, .modebar-container {
    display: none !important;
  }
  html, body, #root, .stApp, [data-testid="stAppViewContainer"], [data-testid="stMain"],
  [data-testid="stMainBlockContainer"], [data-testid="stMain"] [data-testid="stVerticalBlock"],
  [data-testid="stTable"], [data-testid="stTable"] * {
    position: static !important; height: auto !important; max-height: none !important;
    overflow: visible !important; transform: none !important;
  }
  [data-testid="stMainBlockContainer"] { padding: 0 !important; max-width: none !important; }
  [data-testid="stPlotlyChart"], [data-testid="stMetric"], [data-testid="stTable"] tr,
  [data-testid="stAlert"] { break-inside: avoid; }
  h1, h2, h3, h4 { break-after: avoid; }
  [data-testid="stHorizontalBlock"] { flex-wrap: wrap !important; }
}
"""


def print_style() -> None:
    """Put the rules for paper on the page; on a screen they change nothing."""
    st.html(f"<style>{PRINT_CSS}</style>")
