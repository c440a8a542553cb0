"""``quorate export``: a run as a bundle that runs without torch."""

from pathlib import Path
from typing import Literal

from quorate.report.tables import print_table
from quorate.store import read_policy

__all__ = ["export"]


def export(
    run: Path,
    out: Path,
    /,
    *,
    policy: Path | None = None,
    format: Literal["onnx"] = "onnx",
) -> None:
    """Write a run as a bundle: one graph per branch, proven equal to torch, that needs ONNX Runtime alone.

    ```
    quorate export runs/cifar10 bundle/
    quorate export runs/cifar10 bundle/ --policy policy.json
    ```

    Args:
        run: the folder of a finished run.
        out: a folder that does not exist, or is empty.
        policy: decide by this file of `quorate tune` instead of the run's own policy.
        format: of the graphs.
    """
    from quorate.engine.runs import load_run
    from quorate.store.bundle import read_bundle

    committee = load_run(run)
    if policy is not None:
        committee = committee.with_policy(read_policy(policy)[0])
        committee.policy.start(1, committee.lattice)  # a policy for another committee says so
    committee.export(out, format=format)
    bundle = read_bundle(out)
    difference = bundle.about["largest_difference"]
    print(f"Written: {out}")
    rows = [
        ["policy", str(bundle.policy)],
        ["branches", str(int(committee.networks.present.sum()))],
        ["largest difference of a probability from torch's", f"{difference:.1e}"],
    ]
    print_table(["", ""], rows)
