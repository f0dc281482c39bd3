"""Every object that a user can hold has a repr, on every kind of run."""

import pagefeed as pf
from made.numbered import numbered_loader
from pagefeed.core.run import Run


def values_within(root, depth):
    """The public attributes of an object, and theirs."""
    seen, found = {id(root)}, [root]
    for _ in range(depth):
        for holder in list(found):
            if not type(holder).__module__.startswith("pagefeed"):
                continue
            for name in dir(holder):
                if name[0] == "_":
                    continue
                try:
                    value = getattr(holder, name)
                except (pf.PagefeedError, AttributeError, TypeError, IndexError):
                    continue  # This run does not have it, or not yet.
                if id(value) not in seen and not callable(value):
                    seen.add(id(value))
                    found.append(value)
    return found


def test_all_that_a_view_holds_is_shown(folder):
    data = pf.parquet(folder, column="input_ids")
    loaders = {
        "plain": numbered_loader(data),
        "balanced": numbered_loader(data, balance="attention", batch_size=8),
        "mixture": numbered_loader(pf.mix({"a": (data, 1.0)}, max_steps=4)),
        "fleet": numbered_loader(data, batch_size=None, global_batch_size=8),
        "rows": numbered_loader(data, sequences=pf.Documents()),
    }
    for name, loader in loaders.items():
        next(iter(loader), None)
        values = values_within(loader.view(), 3)
        assert any(isinstance(value, Run) for value in values), name
        for value in values:
            assert repr(value)
