"""Random entries over rows, to attack the proof that they run on any number of rows."""
