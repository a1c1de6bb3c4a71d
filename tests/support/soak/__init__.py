"""The randomised proof of the queue: nothing lost, nothing twice, counts exact.

Producers and workers are processes of their own that write what they did to files; faults hit all
of them and the server; afterwards the files, which the database cannot have influenced, are held
against what the database says. `python -m bench.soak` runs it for as long as one likes.
"""
