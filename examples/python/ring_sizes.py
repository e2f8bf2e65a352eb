"""How long do messages take on the ring, depending on their size and on what the network loses?

A worked example of ``groupcast_lab``: a sweep of eight sizes and two rates of loss with five seeds each, a table, and
three figures. Nothing but the time that it takes depends on where it runs:

    python ring_sizes.py                                    one simulation a core
    python ring_sizes.py --executor dask --jobs 2           two workers of Dask on this machine
    python ring_sizes.py --scheduler tcp://10.0.0.1:8786    the workers of a cluster

The program ``groupcast`` is taken from the PATH, or from the environment variable GROUPCAST.
"""

import argparse
import sys
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes

matplotlib.use("Agg")  # figures go to files; this needs no display

import groupcast_lab as lab

SCENARIO = Path(__file__).with_name("ring_sizes.toml")
SIZES = [64, 150, 350, 700, 1350, 3000, 7000, 16000]
LOSSES = ["0 %", "0.5 %"]


def main() -> None:
    """Sweeps, and shows what came out."""
    options = parse()
    executor: lab.Executor
    if options.scheduler:
        executor = lab.Dask(options.scheduler)
    elif options.executor == "dask":
        executor = lab.Dask(jobs=options.jobs)
    else:
        executor = lab.Local(options.jobs)

    # The grid: every size with every loss. Keys are those of the scenario, values are written as in it.
    sweep = lab.sweep(
        SCENARIO,
        {"source.0.size": options.sizes, "network.link.loss": LOSSES},
        seeds=options.seeds,
        executor=executor,
        out=options.out / "runs",  # run again after an interruption, and only what is missing is run
        progress=lambda done, of: print(f"\r{done} of {of} runs", end="\n" if done == of else "", file=sys.stderr),
    )

    # One line a point: the mean over seeds, and its 95 % confidence interval.
    table = sweep.summarise("latency_p99_s")
    print(table.to_string(index=False, float_format="{:.6f}".format))
    table.to_csv(options.out / "latency.csv", index=False)

    # The tables are data frames: whatever pandas can do can be done with them.
    counts = sweep.runs.groupby("network.link.loss")[["submitted", "repairs_sent"]].sum()
    for loss, row in counts.iterrows():
        print(f"loss {loss}: {row['repairs_sent'] / row['submitted']:.3f} repairs a message")

    ax = lab.plot_measure(sweep, "latency_p99_s", x="source.0.size", by="network.link.loss")
    ax.set_xscale("log")
    ax.set_xticks(options.sizes, labels=[str(size) for size in options.sizes])
    ax.minorticks_off()
    ax.set_xlabel("bytes a message")
    save(ax, options.out / "latency.png")

    point = {"source.0.size": options.sizes[-1], "network.link.loss": LOSSES[1]}
    one = sweep.cell(point, seed=sweep.cells[0].seed)
    save(lab.plot_latency(one), options.out / "distribution.png")
    save(lab.plot_windows(one), options.out / "throughput.png")

    # The same on any machine, with any executor and any number of jobs.
    print(f"digest of all results: {sweep.digest()}")


def save(ax: Axes, path: Path) -> None:
    """Writes the figure that ``ax`` belongs to."""
    ax.get_figure(root=True).savefig(path, dpi=120)
    print(f"wrote {path}")


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--executor", choices=["local", "dask"], default="local")
    parser.add_argument("--scheduler", help="address of a Dask scheduler")
    parser.add_argument("--jobs", type=int, help="runs at the same time (default: one a core)")
    parser.add_argument("--seeds", default="1..6", help="A..B, from A to B - 1 (default: %(default)s)")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="bytes of a message")
    parser.add_argument("--out", type=Path, default=Path("ring-sizes"), help="directory of the results")
    return parser.parse_args()


if __name__ == "__main__":
    main()
