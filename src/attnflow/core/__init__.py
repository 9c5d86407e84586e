"""What everything else stands on: inputs and their sentences, arrays, blocks, functions of time, progress."""
