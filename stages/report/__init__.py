"""Metrics, tables, figures and the page."""
