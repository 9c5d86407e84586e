"""What all other packages use: checks of inputs, arrays, blocks of rows, functions of time, progress."""
