"""What OLMo-core's trainer trains: nothing much."""

import torch
from olmo_core.train.train_module import EvalBatchSpec, TrainModule

from job import LENGTH


class Module(TrainModule):
    """Shows its batches to a model, and learns nothing."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    @property
    def eval_batch_spec(self):
        return EvalBatchSpec(rank_batch_size=4 * LENGTH)

    @property
    def dp_process_group(self):
        return None

    def state_dict(self, *, optim=None):
        del optim
        return {"model": self.model.state_dict()}

    def load_state_dict(self, state_dict):
        self.model.load_state_dict(state_dict["model"])

    def train_batch(self, batch, dry_run=False):
        if dry_run:
            return
        ids = batch["input_ids"]
        self.model(ids, ids)
        assert batch["doc_lens"].sum(dim=1).tolist() == [LENGTH] * len(ids)
        assert batch["max_doc_lens"] == batch["doc_lens"].amax(dim=1).tolist()
        assert batch["label_mask"].dtype == torch.bool

    def eval_batch(self, batch, labels=None):
        raise NotImplementedError

    def optim_step(self):
        """Nothing is learnt."""

    def zero_grads(self):
        """Nothing to clear."""

    def num_flops_per_token(self, seq_len):
        del seq_len

    def global_num_flops_in_batch(self, batch):
        del batch
