"""One writer a scene: what waits, one turn after another, and who holds which scene."""
