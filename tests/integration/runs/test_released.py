"""Each version reads files, repeats orders and continues states that were released."""

import json

import pytest

import pagefeed as pf
from made.released import FOLDER, STEPS_AFTER, loaders, put_files, steps_of

RELEASES = sorted(FOLDER.glob("*.json"))


def test_this_version_keeps_what_it_promises():
    assert f"{pf.__version__}.json" in [path.name for path in RELEASES]


@pytest.mark.parametrize("release", RELEASES, ids=lambda path: path.stem)
def test_files_orders_and_states_of_a_release(release, tmp_path):
    kept = json.loads(release.read_text())
    put_files(kept["files"], tmp_path)
    makers = loaders(tmp_path)
    assert {*kept["orders"]} <= {*makers}
    for name, order in kept["orders"].items():
        loader = makers[name]()
        assert steps_of(loader, len(order["first"])) == order["first"], name
        again = makers[name]()
        again.load_state_dict(order["state"])
        assert steps_of(again, STEPS_AFTER) == order["next"], name


def test_kinds_differ_so_that_a_change_of_one_is_seen():
    orders = json.loads(RELEASES[-1].read_text())["orders"]
    seen = [tuple(order["first"]) for order in orders.values()]
    assert len({*seen}) == len(seen) >= 12


@pytest.mark.parametrize("name", ["version", "order_version"])
def test_a_state_of_another_version_is_refused(name, tmp_path):
    kept = json.loads(RELEASES[-1].read_text())
    put_files(kept["files"], tmp_path)
    state = kept["orders"]["windows, page"]["state"]
    loader = loaders(tmp_path)["windows, page"]()
    with pytest.raises(pf.errors.StateMismatchError, match="version"):
        loader.load_state_dict(state | {name: 99})
