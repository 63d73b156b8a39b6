"""What differs between devices: moving bytes, emptying caches, the clock inside.  One module each."""
