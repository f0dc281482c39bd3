"""OLMo-core: its own trainer, fed by a loader, stopped and resumed."""

from typing import Any

import pytest

pytest.importorskip("olmo_core", reason="make test-trainers ARGS=olmo")

from pagefeed.integrations.olmo import PagefeedDataLoader
from trainers.running import EPOCH, all_rows, flat, make_loader, refuses_all, run_job

STEPS = 14


@pytest.fixture(scope="module")
def runs(folder):
    run_job("olmo", folder, world_size=2, expect=-9, runs={"killed": {}}, die_at=23)
    resumes = {
        "middle": {"resume": "whole/step7"},
        "end": {"resume": "whole/step14"},
        "after": {"resume": "killed/step21"},
    }
    return run_job("olmo", folder, world_size=2, runs={"whole": {}, **resumes})


def test_every_epoch_is_seen_exactly_once(runs):
    assert all(one["whole"]["steps"] == 2 * STEPS for one in runs)
    for epoch in range(2):
        rows = all_rows(runs, "whole", epoch * STEPS, (epoch + 1) * STEPS)
        assert rows == EPOCH


@pytest.mark.parametrize(("run", "step"), [("middle", 7), ("end", 14), ("after", 21)])
def test_a_resume_goes_on_with_the_same_samples(runs, run, step):
    for one in runs:
        assert one[run]["seen"] == one["whole"]["seen"][step:]
        assert one[run]["steps"] == one["whole"]["steps"]


def test_another_world_size_sees_what_is_left(runs, folder):
    resume = {"alone": {"resume": "whole/step7", "steps": 7 + 14}}
    [alone] = run_job("olmo", folder, world_size=1, runs=resume)
    before = all_rows(runs, "whole", 0, 7)
    assert sorted(before + flat(alone["alone"]["seen"])) == EPOCH


def test_wrong_arguments_are_refused(folder, tmp_path):
    loader = make_loader(folder)
    borders = make_loader(folder, fields=("input_ids", "loss_mask", "cu_seqlens"))
    make: Any = PagefeedDataLoader
    wrong = {
        "no pagefeed Loader": lambda: make("tokens", work_dir=tmp_path),
        "needs loss_mask": lambda: make(loader, work_dir=tmp_path),
        "needs doc_lens, max_doc_lens": lambda: make(borders, work_dir=tmp_path),
    }
    refuses_all(wrong)
