"""Sampling engines: torch, vLLM, and any OpenAI-compatible server. `selection` chooses the engine of a model."""
