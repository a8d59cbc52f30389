"""The floor of starting: a page of Streamlit that says hello."""

import streamlit as st

st.header("Hello")
