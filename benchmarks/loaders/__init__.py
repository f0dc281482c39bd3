"""Measure loaders of training data side by side, on the same tokens.

`python -m loaders` is the command; `README.md` says how to run it and how to add a
loader of your own.
"""
