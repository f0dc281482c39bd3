"""A mixture whose weights follow its losses, in a trainer of two ranks."""

from importlib import import_module

from mixing_job import NAMES, STEPS, exact, job, loader, logs, seen

SHOWN = ("jax", "olmo")
"""Those whose loop the guide shows; the environment of JAX has no torch."""

adapter = job.options["adapter"]
if job.options.get("replay"):
    repeated = loader("position_ids", format="numpy")
    repeated.load_state_dict(job.options["replay"], replay=True)
    batches = iter(repeated)
    rows = [next(batches)["input_ids"][:, 0].tolist() for _ in range(STEPS)]
    job.report("seen", rows)
else:
    loops = import_module("mixing_shown" if adapter in SHOWN else "mixing_loops")
    trained = getattr(loops, f"by_{adapter}")()
    job.report("seen", seen)
    job.report("exact", exact)
    names = [f"loss/{name}" for name in NAMES]
    job.report("logged", [[log.get(name) for name in names] for log in logs])
    job.report("state", trained.state_dict())
    if adapter != "jax":
        job.leave_group()
