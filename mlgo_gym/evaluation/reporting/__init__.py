"""Reports on evaluations: comparisons, HTML pages with figures, tables for papers."""
