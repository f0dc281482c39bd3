"""The processes of a cold node read each footer once between them."""

import io
import json
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq

from servers.counting_store import CountingStore
from servers.web_servers import running

NUM_FILES = 300

RANK = """
import json, sys
import pagefeed
pagefeed.parquet(
    "s3://many/tokens/",
    column="tokens",
    cache_dir=sys.argv[2],
    storage_options=json.loads(sys.argv[1]),
).index
"""


def small_file(number):
    out = io.BytesIO()
    table = pa.table({"tokens": [[number, row] * 4 for row in range(8)]})
    pq.write_table(table, out, write_page_index=True)
    return out.getvalue()


def test_four_ranks_read_each_footer_once(tmp_path):
    store = CountingStore()
    with running(store):
        for number in range(NUM_FILES):
            store.put(f"many/tokens/{number:04}.parquet", small_file(number))
        command = [sys.executable, "-c", RANK, json.dumps(store.options), str(tmp_path)]
        ranks = [subprocess.Popen(command) for _ in range(4)]
        assert [rank.wait(timeout=120) for rank in ranks] == [0] * 4
        assert store.counts == {"LIST": 4, "GET": NUM_FILES}
