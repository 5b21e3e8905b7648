"""Reports over runs: comparisons, pages with figures, tables for papers."""
