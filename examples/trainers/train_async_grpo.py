"""Asynchronous GRPO in a loop of its own: answers are late, a kill loses nothing.

python examples/trainers/train_async_grpo.py data/ run/

Prompts are answered with the policy of the moment, and trained on when their answers
are finished, up to three steps later. A run that is killed and resumed has the rewards
of one that was not.
"""

import multiprocessing
import os
import signal
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

import pagefeed as pf
from pagefeed.run import Ticket

BATCH, STALENESS, ANSWERS, LENGTH = 4, 2, 4, 6
STEPS, SAVE_EVERY, KILLED = 12, 4, 7


class Run:
    """A model, its prompts, and the answers that wait to be trained on."""

    def __init__(self, data: str, folder: Path) -> None:
        torch.manual_seed(0)
        torch.set_num_threads(1)
        self.tokenizer = PreTrainedTokenizerFast.from_pretrained(data)
        size = len(self.tokenizer)
        self.model = LlamaForCausalLM(
            LlamaConfig(
                vocab_size=size,
                hidden_size=16,
                intermediate_size=32,
                num_hidden_layers=1,
                num_attention_heads=2,
            )
        )
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.01)
        self.queue = pf.PromptQueue(
            pf.parquet(f"{data}/prompts.parquet", column="prompt"),
            columns=["prompt", "answer"],
            seed=1,
            max_in_flight=(STALENESS + 1) * BATCH,
            curriculum=pf.Curriculum(edges=[0.2, 0.9], weights=[0.5, 1.0, 0.2]),
        )
        self.checkpoint = folder / "checkpoint.pt"
        self.step = 0
        self.rewards: list[float] = []
        self.waiting: list[tuple[int, Ticket, Any, Any]] = []
        """Step at which answers are finished, their ticket, tokens and rewards."""

    def answer(self, tickets: list[Ticket]) -> None:
        """Answer prompts; some answers take steps longer than others."""
        for ticket, row in zip(tickets, self.queue.read(tickets), strict=True):
            prompt = self.tokenizer(row["prompt"], return_tensors="pt")["input_ids"]
            tokens = prompt.repeat(ANSWERS, 1)
            dice = torch.Generator().manual_seed(ticket.position)
            with torch.no_grad():
                for _ in range(LENGTH):
                    odds = self.model(tokens).logits[:, -1].softmax(-1)
                    drawn = torch.multinomial(odds, 1, generator=dice)
                    tokens = torch.cat([tokens, drawn], dim=1)
            # The reward is the share of even tokens, which a policy can learn.
            made = tokens[:, prompt.shape[1] :]
            rewards = (made % 2 == 0).float().mean(dim=1)
            late = int(torch.randint(STALENESS + 1, (), generator=dice))
            self.waiting.append((self.step + late, ticket, tokens, rewards))

    def train(self) -> None:
        """Take prompts, and train on the answers that are finished first."""
        room = self.queue.max_in_flight - self.queue.in_flight
        self.answer(self.queue.take(room, version=self.step) if room else [])
        self.waiting.sort(key=lambda each: (each[0], each[1].position))
        batch, self.waiting = self.waiting[:BATCH], self.waiting[BATCH:]
        loss = torch.zeros(())
        for _, _, tokens, rewards in batch:
            advantages = rewards - rewards.mean()
            logits = self.model(tokens[:, :-1]).logits[:, -LENGTH:]
            chosen = tokens[:, -LENGTH:, None]
            likely = logits.log_softmax(-1).gather(2, chosen)[..., 0].sum(dim=1)
            loss = loss - (advantages * likely).mean() / BATCH
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        means = [float(rewards.mean()) for *_, rewards in batch]
        self.queue.commit([ticket for _, ticket, *_ in batch], scores=means)
        self.rewards.append(sum(means) / BATCH)
        self.step += 1

    def save(self) -> None:
        """Save the model, the queue and the answers that wait, at one moment."""
        parts = {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "queue": self.queue.state_dict(),
            "waiting": [(at, tuple(t), *rest) for at, t, *rest in self.waiting],
            "run": (self.step, self.rewards),
        }
        torch.save(parts, self.checkpoint)

    def resume(self) -> None:
        """Continue at the checkpoint; the answers it has keep their tickets."""
        saved = torch.load(self.checkpoint)
        self.model.load_state_dict(saved["model"])
        self.optimizer.load_state_dict(saved["optimizer"])
        self.queue.load_state_dict(saved["queue"])
        tickets = self.queue.claim(Ticket(*each[1]) for each in saved["waiting"])
        both = zip(saved["waiting"], tickets, strict=True)
        self.waiting = [(at, ticket, *rest) for (at, _, *rest), ticket in both]
        self.step, self.rewards = saved["run"]


def go(data: str, folder: Path, *, resume: bool, kill: Iterable[int] = ()) -> Run:
    """Train to the last step, or until a step at which the process is killed."""
    folder.mkdir(parents=True, exist_ok=True)
    run = Run(data, folder)
    if resume:
        run.resume()
    while run.step < STEPS:
        run.train()
        if run.step in kill:
            os.kill(os.getpid(), signal.SIGKILL)
        if run.step % SAVE_EVERY == 0:
            run.save()
    return run


if __name__ == "__main__":
    data, folder = sys.argv[1], Path(sys.argv[2])
    whole = go(data, folder / "whole", resume=False)
    killed = multiprocessing.get_context("spawn").Process(
        target=go,
        args=(data, folder / "killed"),
        kwargs={"resume": False, "kill": [KILLED]},
    )
    killed.start()
    killed.join()
    resumed = go(data, folder / "killed", resume=True)
    assert resumed.rewards == whole.rewards
    print("killed and resumed, with the rewards of a run that was not:")
    print([round(reward, 2) for reward in resumed.rewards])
    print(f"rank 0 of 1 ends at step {resumed.step}")
