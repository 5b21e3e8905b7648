"""From a module to an outcome: arguments, launch, baseline, warm starts and bitcode optimised once."""
