"""Streamlit pages and widgets; nothing below this room knows Streamlit."""
