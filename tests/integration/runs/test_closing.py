"""Loaders end their threads: when closed, when dropped, and with the interpreter."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from made.chats import TEMPLATES, write_chat_tokenizer
from made.numbered import numbered_loader, write_numbered
from pagefeed.errors import CancelledError

SETUP = """
import sys, time, warnings
import pagefeed as pf
warnings.simplefilter("ignore")
folder = sys.argv[1]

def encode(text):
    time.sleep(0.0002)
    return list(text.encode())

def texts():
    letters = pf.Tokenizer(encode, vocab_size=256, name="letters")
    return pf.parquet(folder + "/texts.parquet", column="text").tokenize(letters)

def chats():
    tokenizer = pf.Tokenizer(folder + "/tokenizer.json")
    data = pf.parquet(folder + "/chats.parquet", column="messages")
    return data.tokenize(tokenizer, messages="messages")

def loader_of(data):
    return pf.Loader(
        data, sequences=pf.Windows(64), batch_size=8, epochs=None, num_threads=2
    )
"""

ENDS = {
    "dropped": "del batches, loader",
    "closed": "loader.close()",
    "exit": "sys.stdout.flush()",
    "error": "print('ended', flush=True); raise SystemExit(3)",
    "garbage": "held = [loader, batches]; held.append(held); del held, loader, batches",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("closing")
    texts = [f"{number} " * 40 for number in range(400)]
    pq.write_table(pa.table({"text": texts}), path / "texts.parquet", row_group_size=50)
    turns = [{"role": r, "content": "so it is " * 9} for r in ("user", "assistant")]
    chats = pa.table({"messages": [turns] * 400})
    pq.write_table(chats, path / "chats.parquet", row_group_size=50)
    write_chat_tokenizer(path, TEMPLATES["chatml"])
    (path / "numbered").mkdir()
    write_numbered(path / "numbered")
    return path


@pytest.mark.parametrize(
    ("kind", "end"),
    [("chats", "dropped"), ("chats", "exit"), *(("texts", end) for end in ENDS)],
)
def test_a_loader_that_calls_python_ends_in_mid_run(folder, kind, end):
    program = f"""{SETUP}
loader = loader_of({kind}())
batches = iter(loader)
for _ in range(3):
    next(batches)
{ENDS[end]}
print("ended", flush=True)
"""
    packages = str(Path(pf.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", program, str(folder)],
        env=os.environ | {"PYTHONPATH": packages},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "ended" in done.stdout, done.stderr
    assert done.returncode == (3 if end == "error" else 0), done.stderr


def engine_threads():
    names = Path("/proc/self/task").glob("*/comm")
    return sum(name.read_text().startswith("pagefeed-") for name in names)


@pytest.mark.skipif(sys.platform != "linux", reason="counts threads in /proc")
def test_a_closed_loader_has_no_threads_and_keeps_its_place(folder):
    before = engine_threads()
    with numbered_loader(folder / "numbered") as loader:
        batches = iter(loader)
        first = next(batches)["input_ids"]
        assert engine_threads() > before
        expected = first.copy()
    assert engine_threads() == before
    assert (first == expected).all()
    assert loader.step == 1
    assert loader.state_dict()["step"] == 1
    assert loader.stats()["batches"] == 1
    for ended in (batches, iter(loader)):
        with pytest.raises(CancelledError, match="was closed"):
            next(ended)
    loader.close()


def test_a_loader_that_never_ran_can_be_closed(folder):
    loader = numbered_loader(folder / "numbered")
    loader.close()
    with pytest.raises(CancelledError, match="was closed"):
        next(iter(loader))


def test_who_waits_for_a_batch_of_a_closed_loader_is_told(folder):
    is_called, may_go = threading.Event(), threading.Event()
    may_go.set()

    def encode(text):
        is_called.set()
        may_go.wait(30)
        return list(text.encode())

    tokenizer = pf.Tokenizer(encode, vocab_size=256, name="gated")
    data = pf.parquet(folder / "texts.parquet", column="text").tokenize(tokenizer)
    loader = pf.Loader(data, sequences=pf.Windows(64), batch_size=8, num_threads=1)
    is_called.clear()
    may_go.clear()
    told = []

    def work():
        with pytest.raises(CancelledError, match="was closed") as error:
            next(iter(loader))
        told.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    assert is_called.wait(30)
    threading.Timer(0.2, may_go.set).start()
    loader.close()
    thread.join(30)
    assert told


def test_a_closed_stream_reads_no_more(folder):
    tokenizer = pf.Tokenizer(
        lambda text: list(text.encode()), vocab_size=256, name="letters"
    )
    data = pf.parquet(folder / "texts.parquet", column="text")
    loader = pf.TextLoader(
        data,
        tokenizer,
        sequences=pf.Windows(64, eos=0),
        batch_size=1,
        epochs=None,
    )
    before = threading.active_count()
    with loader:
        batches = iter(loader)
        next(batches)
        assert threading.active_count() > before
    assert threading.active_count() == before
    assert loader.state_dict()["step"] == 1
    with pytest.raises(CancelledError, match="was closed"):
        next(batches)


def test_the_threads_that_decode_end_too(folder):
    loader = numbered_loader(
        folder / "numbered",
        sequences=pf.Documents(columns=["input_ids"]),
        decode={"input_ids": len},
    )
    before = threading.active_count()
    batches = iter(loader)
    next(batches)
    assert threading.active_count() > before
    loader.close()
    assert threading.active_count() == before
    with pytest.raises(CancelledError, match="was closed"):
        next(batches)
