"""Attribution of bytes to decisions: decision sites, credit, counterfactuals and recipes."""
