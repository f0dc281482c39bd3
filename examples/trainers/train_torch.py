"""PyTorch alone: DDP over a mesh, and distributed checkpoints for any world size.

torchrun --nproc-per-node 2 examples/trainers/train_torch.py tokens/ run/
"""

import sys

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.device_mesh import init_device_mesh

import pagefeed as pf
from pagefeed.launch import from_mesh
from pagefeed.torch import Leaf


def train(tokens: str, run: str, stop: int, resume: str | None = None) -> None:
    """Train up to a step, and save there."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("dp",))
    rank, world_size = from_mesh(mesh, "dp")  # Also with "tp", "pp", "cp" beside it.
    loader = pf.Loader(
        pf.parquet(tokens, column="input_ids"),
        sequences=pf.Packed(128, eos=0),
        batch_size=4,
        seed=1,
        format="torch",
        fields=("input_ids", "labels"),
        rank=rank,
        world_size=world_size,
    )
    embedding = torch.nn.Embedding(65536, 16)
    model = torch.nn.parallel.DistributedDataParallel(embedding)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    state = {"model": embedding.state_dict(), "data": Leaf(loader)}
    if resume is not None:
        load(state, checkpoint_id=resume)
    loader.check_ranks()
    for batch in loader:
        logits = model(batch["input_ids"][:, :-1]) @ embedding.weight.T
        loss = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), batch["labels"][:, 1:].flatten()
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if loader.step == stop:
            break
    save(state, checkpoint_id=run)
    numbers = loader.metrics(dist.group.WORLD)
    print(f"{numbers['data/tokens_per_second']:.0f} tokens/s on all ranks")
    print(f"rank {loader.rank} of {loader.world_size} ends at step {loader.step}")


if __name__ == "__main__":
    tokens, run = sys.argv[1:3]
    dist.init_process_group("gloo")
    train(tokens, f"{run}/step-10", stop=10)
    train(tokens, f"{run}/step-15", stop=15, resume=f"{run}/step-10")
    dist.destroy_process_group()
