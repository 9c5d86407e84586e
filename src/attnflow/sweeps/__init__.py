"""Parameter studies: a function called at every point of a grid, on one machine or on many."""
