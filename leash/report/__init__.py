"""Building blocks of the report: tables, figures, page, narrative, formatting, provenance."""
