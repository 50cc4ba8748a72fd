"""Reference solutions scored under every model."""
