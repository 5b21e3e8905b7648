"""From recorded flags to the `-cc1` command of one compile."""
