"""Runs of an adapter on loaders with features, beside plain loops."""

from adapters import ADAPTERS, job
from features import runs

job.options["whole_batches"] = True
for name, case, seen, plain in runs(job, ADAPTERS[job.options["adapter"]]):
    job.report(f"{name}, {case}", {"seen": seen, "plain": plain})
if job.options["adapter"] == "jax":
    import jax

    jax.distributed.shutdown()
else:
    job.leave_group()
