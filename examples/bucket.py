"""Feed from a bucket, stop, and go on where it was.

    export AWS_ACCESS_KEY_ID=... AWS_SECRET_ACCESS_KEY=... AWS_REGION=...
    python examples/bucket.py s3://corpus/web/ --cache /nvme/pagefeed --steps 1000

Any URL will do, and a folder of this machine as well. Credentials come from the
environment: so they reach every rank, and no checkpoint.
"""

import argparse
import json
from pathlib import Path

import pagefeed as pf


def main() -> None:
    """Take some steps from the state there is, and leave one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--column", default="input_ids")
    parser.add_argument("--length", type=int, default=2048)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--cache", type=Path, required=True, help="on a local disk")
    options = parser.parse_args()
    is_remote = "://" in options.url
    data = pf.parquet(
        options.url,
        column=options.column,
        cache_dir=options.cache,  # The next start reads no footers.
        storage_cache="200GB" if is_remote else None,  # Nor pages the next epoch.
        storage_options={"storage_cache_dir": str(options.cache)}
        if is_remote
        else None,
    )
    loader = pf.Loader(
        data,
        sequences=pf.Windows(options.length),
        batch_size=8,
        seed=1,
        memory="1GiB",
    )
    state = options.cache / "state.json"
    if state.exists():
        loader.load_state_dict(json.loads(state.read_text()))
    for step, batch in enumerate(loader, start=1):
        tokens = batch["input_ids"]  # int64 [8, length]: train on them.
        print(f"step {step}: {tokens.size} tokens, the first {tokens[0, 0]}")
        if step == options.steps:
            break
    state.write_text(json.dumps(loader.state_dict()))
    stats = loader.stats()
    for name in ("requests", "bytes_fetched", "cache_bytes", "retries"):
        print(f"{name} {stats.get(f'storage/{name}', 0):,.0f}")


if __name__ == "__main__":
    main()
