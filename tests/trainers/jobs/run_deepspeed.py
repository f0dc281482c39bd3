"""A DeepSpeed engine on the CPU: what reads its loader, and what does not fit."""

from itertools import islice

import deepspeed
import torch
from deepspeed.runtime.dataloader import RepeatingLoader
from deepspeed.runtime.sequence_parallel.ulysses_sp import UlyssesSPDataLoaderAdapter
from deepspeed.utils import groups

import pagefeed as pf
from job import LENGTH, Job
from pagefeed.errors import InvalidArgumentError
from pagefeed.integrations.deepspeed import attach
from pagefeed.launch import from_deepspeed
from tiny_model import Model

job = Job()
CONFIG = {"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 1}


def start(micro_batch=4, **options):
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    settings = CONFIG | {"train_micro_batch_size_per_gpu": micro_batch}
    engine, *_ = deepspeed.initialize(
        model=model, optimizer=optimizer, config=settings, **options
    )
    return engine


def trap():
    """A dataset given to DeepSpeed: a checkpoint in the middle knows no position."""
    dataset = pf.parquet(job.folder / "data", column="input_ids")
    view = pf.SequenceView(dataset, pf.Windows(LENGTH), format="torch")
    engine = start(training_data=view)
    batches = islice(engine.training_dataloader, 3)
    before = [batch["input_ids"][:, 0].tolist() for batch in batches]
    engine.save_checkpoint(str(job.folder), "trap")
    again = start(training_data=view)
    again.load_checkpoint(str(job.folder), "trap")
    first = next(iter(again.training_dataloader))["input_ids"][:, 0].tolist()
    job.report("silent", {"before": before, "after": first})
    try:
        attach(again, job.loader())
    except InvalidArgumentError as error:
        job.report("refused", str(error))


def sequence_parallel():
    """Both ranks work on one sequence: what DeepSpeed's adapter makes of batches."""
    engine = start(mesh_param=(1, 2))
    fields = {"fields": ("input_ids", "labels", "position_ids")}
    for name, gathers in (("silent", False), ("gathered", True)):
        ranks = from_deepspeed(ulysses_adapter=gathers)
        loader = job.loader(**ranks._asdict(), **fields)
        adapter = UlyssesSPDataLoaderAdapter(
            attach(engine, loader, ulysses_adapter=gathers),
            sp_rank=groups._get_sequence_parallel_rank(),
            sp_group=groups._get_sequence_parallel_group(),
            sp_world_size=groups._get_sequence_parallel_world_size(),
            device="cpu",
        )
        seen = [batch["input_ids"][:, 0].tolist() for batch in adapter]
        job.report(f"ulysses {name}", {"ranks": list(ranks), "seen": seen})


deepspeed.init_distributed(dist_backend="gloo")
engine = start()
endless = RepeatingLoader(attach(engine, job.loader(), endless=True))
found = [next(endless)["input_ids"][:, 0].tolist() for _ in range(28)]
job.report("endless", {"seen": found})
engine = start(micro_batch=2)
try:
    attach(engine, job.loader())
except InvalidArgumentError as error:
    job.report("batch size", str(error))
trap()
sequence_parallel()
torch.distributed.destroy_process_group()
