"""Benchmarks: posegate beside what a user would write instead, in one run, as ratios."""
