"""The rules: pure values that decide, and evolve by what was decided."""
