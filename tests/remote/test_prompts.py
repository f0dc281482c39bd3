"""Prompts in a bucket and on a web server: read together, also by a pickled queue."""

import pickle
from collections import Counter
from typing import Any

import pytest
from deltalake import write_deltalake

import pagefeed as pf
from made.prompts import queue_of, saved
from made.tables import rows_table


@pytest.fixture(autouse=True)
def keys(s3, monkeypatch):
    """Keys, which do not travel with a pickled queue."""
    for name in ("access_key_id", "secret_access_key"):
        monkeypatch.setenv(f"AWS_{name.upper()}", s3.options[name])


def finished(make: Any) -> Counter[Any]:
    """Rows that are committed by a queue that is killed after each step."""
    queue, trained = make(), []
    while not queue.done:
        tickets = queue.take(64)
        rows = pickle.loads(pickle.dumps(queue)).read(tickets)
        assert rows == queue.read(tickets)
        queue.commit(tickets[:50])
        trained += [tuple(row.values()) for row in rows[:50]]
        state = saved(queue)
        queue.close()
        queue = make()
        queue.load_state_dict(state)
    return Counter(trained)


def test_prompts_of_files_afar_are_those_of_local_files(place):
    def make_of(paths: Any, **options: Any) -> Any:
        data = pf.parquet(paths, column="text", **options)
        settings: dict[str, Any] = {"columns": ["text", "quality"], "epochs": 1}
        return lambda: queue_of(data.where("quality < 0.5"), **settings)

    afar = finished(make_of(place.urls[:2], storage_options=place.options))
    near = finished(make_of(sorted(place.folder.iterdir())[:2]))
    assert afar == near
    assert afar.total() > 100


def test_prompts_of_a_table_in_a_bucket(root, s3):
    write_deltalake(root / "corpus" / "prompts", rows_table(0, 100))

    def make() -> pf.PromptQueue:
        data = pf.delta("s3://corpus/prompts", column="id", storage_options=s3.options)
        return queue_of(data, columns=["id"], epochs=2)

    assert finished(make) == {(number,): 2 for number in range(100)}
