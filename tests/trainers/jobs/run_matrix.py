"""Runs of an adapter on loaders that are new, peeked into, used, placed, resumed."""

import logging

from adapters import ADAPTERS, cases, job, of_other_sizes


class Lines(logging.Handler):
    """What adapters log."""

    def __init__(self):
        super().__init__()
        self.texts = []

    def emit(self, record):
        if " begins at " in record.getMessage():
            self.texts.append(record.getMessage())


lines = Lines()
logger = logging.getLogger("pagefeed")
logger.addHandler(lines)
logger.setLevel(logging.INFO)
make = ADAPTERS[job.options["adapter"]]
if "die_at" in job.options:
    make(job.loader(**make.options)).train(save_at=(6, 14, 20))
for name, seen in (of_other_sizes if "max_steps" in job.options else cases)(make):
    told, lines.texts = lines.texts, []
    job.report(name, {"seen": seen, "told": told})
if job.options["adapter"] == "jax":
    import jax

    if job.world_size > 1:
        jax.distributed.shutdown()
else:
    job.leave_group()
