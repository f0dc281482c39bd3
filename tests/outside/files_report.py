"""A report: how many tokens of each file the next steps of this rank have."""

from collections import Counter

import pagefeed as pf


def tokens_by_file(loader: pf.Loader, num_steps: int) -> dict[str, int]:
    view = loader.view()
    cursor = view.run.at(view.position.now)
    counts: Counter[str] = Counter()
    for sequence in cursor.sequences(0, num_steps).tolist():
        if sequence >= 0:
            for origin in view.run.origins(sequence):
                counts[origin.file] += origin.num_tokens
    return dict(counts)
