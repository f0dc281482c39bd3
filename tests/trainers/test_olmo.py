"""OLMo-core: what does not fit; its trainer runs in the matrix."""

from typing import Any

import pytest

pytest.importorskip("olmo_core", reason="make test-trainers ARGS=olmo")

from pagefeed.integrations.olmo import PagefeedDataLoader
from trainers.running import make_loader, refuses_all


def test_wrong_arguments_are_refused(folder, tmp_path):
    loader = make_loader(folder)
    borders = make_loader(folder, fields=("input_ids", "loss_mask", "cu_seqlens"))
    make: Any = PagefeedDataLoader
    wrong = {
        "not a pagefeed Loader": lambda: make("tokens", work_dir=tmp_path),
        "start=1": lambda: make(loader, work_dir=tmp_path, start=1),
        "needs loss_mask": lambda: make(loader, work_dir=tmp_path),
        "needs doc_lens, max_doc_lens": lambda: make(borders, work_dir=tmp_path),
    }
    refuses_all(wrong)
