"""The report as one HTML file that works without a network."""
