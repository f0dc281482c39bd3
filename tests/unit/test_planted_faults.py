"""Every fault that ``make faults`` plants has a place in the core."""

import itertools
import tomllib
from collections import defaultdict

import plant


def test_faults_find_their_places_apart_from_each_other():
    faults = tomllib.loads((plant.ROOT / "tests" / "faults.toml").read_text())["fault"]
    changes = defaultdict(list)
    for number, fault in enumerate(faults):
        source = (plant.ROOT / plant.CORE / fault["file"]).read_text()
        changes[fault["file"]].append(plant.change(number, fault, source))
    for of_file in changes.values():
        for one, later in itertools.pairwise(sorted(of_file)):
            assert one.end <= later.start, (one, later)
