"""Many environments in one process: the sub-environments, the event loop that serves them, and their infos as one."""
