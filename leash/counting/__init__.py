"""Hits per problem, counted by DuckDB over the verdict tables."""
