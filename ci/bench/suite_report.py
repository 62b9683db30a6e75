"""What the suite says: lines while it runs, the README's table and the picture, from the figures alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

__all__ = ["FIGURES_FILE", "MARKS", "draw_picture", "show", "table", "write_readme"]

FIGURES_FILE = Path(__file__).with_name("suite.json")
README = Path(__file__).resolve().parents[2] / "README.md"
MARKS = "<!-- suite-table -->", "<!-- end of suite-table -->"
TASKS = {"packs": "fewest packs", "balance": "balance, no cap", "capped": "balance under a cap"}
NAMES = {"ours": "`packing`", "lightbinpack": "LightBinPack", "trl": "TRL", "ortools": "OR-Tools"}
OURS, PEER = "#4c72b0", "#c44e52"

Figures = dict[str, Any]


def show(figures: Figures) -> None:
    """Prints one result."""
    head = f"{figures['package']} {figures['method']}"
    if figures["outcome"] == "ok":
        over = f", {figures['overflowing']} rows over the cap" if figures["overflowing"] else ""
        rest = (
            f"{figures['bins']:6} bins {100 * figures['over_bound']:10.4g} % over the bound{over}"
            f" {figures['cpu_ms']:10.4g} ms {figures['peak_mb']:8.1f} MiB"
        )
    else:
        rest = figures["outcome"]
    print(f"{figures['what']:<52} {head:<34} {rest}", flush=True)


def shown_inputs(figures: list[Figures]) -> dict[str, str]:
    """The first input of every task."""
    first: dict[str, str] = {}
    for one in figures:
        if one["task"] in TASKS:
            first.setdefault(one["task"], one["what"])
    return {task: first[task] for task in TASKS if task in first}


def _excess(over_bound: float) -> str:
    percent = 100 * over_bound
    return "0" if percent == 0 else f"{percent:.3f}" if percent >= 0.001 else f"{percent:.0e}"


def _time(milliseconds: float) -> str:
    return f"{milliseconds:.2g} ms" if milliseconds < 10 else f"{milliseconds:,.0f} ms"


def _rows(figures: list[Figures]) -> dict[str, list[Figures]]:
    """What the README shows: per task the results on its first input, by what the user gets and then by time."""
    return {
        task: sorted(
            (one for one in figures if one["task"] == task and one["what"] == what),
            key=lambda one: (one["outcome"] != "ok", one["overflowing"] > 0, one["over_bound"], one["cpu_ms"]),
        )
        for task, what in shown_inputs(figures).items()
    }


def table(figures: list[Figures]) -> str:
    """The README's table in Markdown."""
    lines = ["| task | method | over the bound | CPU time | memory |", "|---|---|---|---|---|"]
    for task, rows in _rows(figures).items():
        for number, one in enumerate(rows):
            head = f"{TASKS[task]}: {one['what']}" if number == 0 else ""
            name = f"{NAMES.get(one['package'], one['package'])} {one['version']}".strip() + f": `{one['method']}`"
            cells = [head, name, quality(one), "", ""]
            if one["outcome"] == "ok":
                cells[3:] = _time(one["cpu_ms"]), f"{one['peak_mb']:.0f} MiB"
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def quality(one: Figures) -> str:
    """What the user gets, in words."""
    if one["outcome"] != "ok":
        return str(one["outcome"])
    if one["overflowing"]:
        return f"{one['overflowing']} rows over the cap"
    packs = f" ({one['bins']:,} packs)" if one["task"] == "packs" else ""
    return f"{_excess(one['over_bound'])} %{packs}"


def write_readme(figures: list[Figures]) -> None:
    """Puts the table between its marks."""
    before, _, rest = README.read_text().partition(MARKS[0])
    README.write_text(f"{before}{MARKS[0]}\n{table(figures)}\n{MARKS[1]}{rest.partition(MARKS[1])[2]}")


def draw_picture(figures: list[Figures]) -> None:
    """CPU time of every method as a bar, with what the user gets beside it; one panel a task."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "packing"
    from matplotlib import pyplot

    shown = _rows(figures)
    heights = [len(rows) + 1.5 for rows in shown.values()]
    figure, axes = pyplot.subplots(
        len(shown), 1, figsize=(9, 0.24 * sum(heights)), sharex=True, layout="constrained", squeeze=False,
        height_ratios=heights,
    )  # fmt: skip
    for axis, (task, rows) in zip(axes[:, 0], shown.items(), strict=True):
        names = [f"{NAMES.get(one['package'], one['package']).strip('`')}: {one['method']}" for one in rows]
        times = [max(one["cpu_ms"], 0.1) for one in rows]
        axis.barh(names, times, color=[OURS if one["package"] == "ours" else PEER for one in rows], height=0.7)
        for place, one in enumerate(rows):
            taken = f"{_time(one['cpu_ms'])}: " if one["outcome"] == "ok" else ""
            axis.annotate(
                taken + quality(one), (times[place], place), (4, 0), textcoords="offset points", va="center", fontsize=7
            )
        axis.invert_yaxis()
        axis.set_xscale("log")
        axis.set_xlim(0.1, 1e6)
        axis.tick_params(labelsize=7)
        axis.set_title(f"{TASKS[task]}: {rows[0]['what']}", fontsize=8, loc="left")
        axis.spines[["top", "right"]].set_visible(False)
    axes[-1, 0].set_xlabel("CPU time, ms; beside it the distance to the proven bound", fontsize=8)
    figure.savefig(FIGURES_FILE.with_suffix(".svg"), metadata={"Date": None})
